"""The lines of an export: JSON objects, each of a kind, the same from every database.

Vectors and the lexical index are left out, since they are made from the facts; so are tokens.
"""

import json
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from memory_store import limits
from memory_store.clock import milliseconds, moment
from memory_store.contract import EventKind, Invalid, Moment, Word
from memory_store.engine import Row
from memory_store.facts import MAX_VERSION
from memory_store.limits import Limits

FORMAT_VERSION = 1
LONGEST_AUTHOR = 1024
Version = Annotated[int, Field(ge=1, le=MAX_VERSION)]


class Header(Word):
    """The first line. `counts` says how many lines of each other kind follow."""

    kind: Literal["header"] = "header"
    format: Literal["memory-bridge"] = "memory-bridge"
    format_version: int = FORMAT_VERSION
    exported_at: Moment
    counts: dict[str, int]


class NamespaceLine(Word):
    kind: Literal["namespace"] = "namespace"
    namespace: str

    def check(self, _allowed: Limits) -> None:
        limits.check_name("namespace", self.namespace)


class VersionLine(Word):
    """What a key said in one version; those of a key follow each other, oldest first."""

    kind: Literal["version"] = "version"
    namespace: str
    key: str
    version: Version
    value: str
    tags: tuple[str, ...]
    metadata: dict[str, Any]
    expires_at: Moment | None
    created_at: Moment
    written_at: Moment
    removed_at: Moment | None
    source_client: str
    principal: str
    self_reported: bool

    def check(self, allowed: Limits) -> None:
        limits.check_address(self.namespace, self.key, allowed)
        limits.check_text("value", self.value, allowed.value)
        limits.check_tags(self.tags, allowed)
        limits.check_metadata(self.metadata, allowed)
        _check_author(self)

    def says_the_same(self, other: "VersionLine") -> bool:
        """Whether it is the same text of the same author, whatever became of it."""
        return self.model_copy(update={"removed_at": other.removed_at}) == other


class FactLine(Word):
    """Which version of a key is the present one; stands behind that version."""

    kind: Literal["fact"] = "fact"
    namespace: str
    key: str
    version: Version

    def check(self, allowed: Limits) -> None:
        limits.check_address(self.namespace, self.key, allowed)


class EventLine(Word):
    """One row of the trail; the lines stand in its order."""

    kind: Literal["event"] = "event"
    at: Moment
    namespace: str | None
    event: EventKind
    key: str | None
    version: int | None
    version_before: int | None
    version_after: int | None
    body: str | None
    detail: dict[str, Any]
    source_client: str
    principal: str
    self_reported: bool
    claimed_client: str | None
    request_id: str | None

    def check(self, allowed: Limits) -> None:
        if self.namespace is not None:
            limits.check_name("namespace", self.namespace)
        if self.key is not None:
            limits.check_text("key", self.key, allowed.key, least=1)
        if self.body is not None:
            limits.check_text("body", self.body, allowed.value)
        for argument in ("claimed_client", "request_id"):
            limits.check_text(argument, getattr(self, argument) or "", LONGEST_AUTHOR)
        _check_author(self)


Line = NamespaceLine | VersionLine | FactLine | EventLine
_ANY: TypeAdapter[Header | Line] = TypeAdapter(
    Annotated[Header | Line, Field(discriminator="kind")]
)


def parse(text: bytes) -> Header | Line:
    """Raises `Invalid` with what is wrong with the line."""
    try:
        return _ANY.validate_json(text)
    except ValidationError as error:
        raise Invalid(reason(error)) from None


def reason(error: ValidationError) -> str:
    """What was wrong first, without the value."""
    found = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(step) for step in found["loc"][-1:])
    return f"{place}: {found['msg']}" if place else found["msg"]


def version_line(row: Row) -> VersionLine:
    """`row` holds the columns of `rows.FACT` and `removed_at`."""
    return VersionLine(
        namespace=row["namespace"],
        key=row["key"],
        version=row["version"],
        value=row["value"],
        tags=tuple(json.loads(row["tags"])),
        metadata=json.loads(row["metadata"]),
        expires_at=_moment(row["expires_at"]),
        created_at=moment(row["created_at"]),
        written_at=moment(row["written_at"]),
        removed_at=_moment(row["removed_at"]),
        source_client=row["source_client"],
        principal=row["principal"],
        self_reported=bool(row["self_reported"]),
    )


def event_line(row: Row) -> EventLine:
    """`row` holds the columns of `event` and the name of its namespace."""
    return EventLine(
        at=moment(row["at"]),
        namespace=row["namespace"],
        event=row["kind"],
        key=row["key"],
        version=row["version"],
        version_before=row["version_before"],
        version_after=row["version_after"],
        body=row["body"],
        detail=json.loads(row["detail"]),
        source_client=row["source_client"],
        principal=row["principal"],
        self_reported=bool(row["self_reported"]),
        claimed_client=row["claimed_client"],
        request_id=row["request_id"],
    )


def stored(moment: Moment | None) -> int | None:
    return None if moment is None else milliseconds(moment)


def _moment(stored: int | None) -> Moment | None:
    return None if stored is None else moment(stored)


def _check_author(line: VersionLine | EventLine) -> None:
    limits.check_text("source_client", line.source_client, LONGEST_AUTHOR)
    limits.check_text("principal", line.principal, LONGEST_AUTHOR)
