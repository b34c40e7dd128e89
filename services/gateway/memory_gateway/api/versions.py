"""A fact's version as its entity tag, and conditions on it."""

import re
from dataclasses import dataclass
from typing import Annotated

from fastapi import Header

from memory_store.contract import Conflict, Fact, Invalid

ANY = "*"
IF_MATCH = 'If-Match must be one version in quotes, as ETag gives it: If-Match: "3".'
IF_NONE_MATCH = "If-None-Match must be * here: write only if the key is absent."
BOTH = "If-Match and If-None-Match exclude each other; send one of them."
_TAG = re.compile(r'"([1-9][0-9]{0,9})"')
_TAGS = re.compile(r'(?:W/)?("[^"]*")')

IfMatch = Annotated[
    str | None,
    Header(
        alias="If-Match",
        description="The version, as `ETag` gave it, that must still be the fact's.",
        json_schema_extra={"pattern": r'^"[1-9][0-9]{0,9}"$', "examples": ['"3"']},
    ),
]
IfAbsent = Annotated[
    str | None,
    Header(
        alias="If-None-Match",
        description="`*`: write only if the key is absent.",
        json_schema_extra={"enum": [ANY]},
    ),
]
IfChanged = Annotated[
    str | None,
    Header(
        alias="If-None-Match",
        description="Versions, as `ETag` gave them, that need not be sent again.",
        json_schema_extra={"examples": ['"3"']},
    ),
]


class PreconditionFailed(Conflict):
    """A condition of the request's headers did not hold; `current` is the fact that won."""

    status = 412


@dataclass(frozen=True)
class Condition:
    """What must hold for a write: the version that must be there, or that none may be."""

    version: int | None = None
    absent: bool = False

    def __bool__(self) -> bool:
        return self.absent or self.version is not None

    def failed(self, conflict: Conflict) -> PreconditionFailed:
        header = "If-None-Match" if self.absent else "If-Match"
        return PreconditionFailed(conflict.message, argument=header, current=conflict.current)


def condition(if_match: str | None, if_none_match: str | None) -> Condition:
    """Raises `Invalid`."""
    if if_match is not None and if_none_match is not None:
        raise Invalid(BOTH, argument="If-Match")
    if if_none_match is not None and if_none_match.strip() != ANY:
        raise Invalid(IF_NONE_MATCH, argument="If-None-Match")
    if if_match is None:
        return Condition(absent=if_none_match is not None)
    tag = _TAG.fullmatch(if_match.strip())
    if tag is None:
        raise Invalid(IF_MATCH, argument="If-Match")
    return Condition(version=int(tag[1]))


def entity_tag(fact: Fact) -> str:
    return f'"{fact.version}"'


def is_known(fact: Fact, if_none_match: str | None) -> bool:
    """Whether the client has this version already."""
    if if_none_match is None:
        return False
    return if_none_match.strip() == ANY or entity_tag(fact) in _TAGS.findall(if_none_match)
