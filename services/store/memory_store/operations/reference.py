"""The JSON Lines file of `@modelcontextprotocol/server-memory`, read as facts."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from memory_store.contract import FactWrite, Invalid
from memory_store.operations.lines import reason


class _Line(BaseModel):
    """Other fields are left to whatever later version of that server writes them."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Entity(_Line):
    type: Literal["entity"]
    name: str
    entity_type: str = Field(alias="entityType")
    observations: tuple[str, ...] = ()

    def fact(self, namespace: str) -> FactWrite:
        return FactWrite(
            namespace=namespace,
            key=f"entity/{self.name}",
            value="\n".join([self.entity_type, *(f"- {said}" for said in self.observations)]),
            tags=("entity",),
            metadata={"entityType": self.entity_type},
        )


class Relation(_Line):
    type: Literal["relation"]
    source: str = Field(alias="from")
    target: str = Field(alias="to")
    relation_type: str = Field(alias="relationType")

    def fact(self, namespace: str) -> FactWrite:
        parts = (self.source, self.relation_type, self.target)
        return FactWrite(
            namespace=namespace,
            key="/".join(["relation", *map(_one_part, parts)]),
            value=" ".join(parts),
            tags=("relation",),
            metadata={"from": self.source, "relationType": self.relation_type, "to": self.target},
        )


_ANY: TypeAdapter[Entity | Relation] = TypeAdapter(
    Annotated[Entity | Relation, Field(discriminator="type")]
)


def parse(text: bytes, namespace: str) -> FactWrite:
    """Raises `Invalid` with what is wrong with the line."""
    try:
        return _ANY.validate_json(text).fact(namespace)
    except ValidationError as error:
        raise Invalid(reason(error)) from None


def looks_like(text: bytes) -> bool:
    try:
        parse(text, "")
    except Invalid:
        return False
    return True


def _one_part(name: str) -> str:
    """A slash in a name must not look like the end of the name."""
    return name.replace("%", "%25").replace("/", "%2F")
