"""What an import writes: versions and events as they were, facts with an event of their own."""

from dataclasses import dataclass
from typing import Any, Protocol

from memory_store import events, facts, namespaces
from memory_store.contract import Caller, iso
from memory_store.engine import Engine, Row, Session
from memory_store.events import Entry
from memory_store.facts import Content, Writing
from memory_store.operations.lines import EventLine, VersionLine, stored
from memory_store.rows import to_json


class Author(Protocol):
    @property
    def source_client(self) -> str: ...

    @property
    def principal(self) -> str: ...

    @property
    def self_reported(self) -> bool: ...


@dataclass(frozen=True)
class Arrival:
    """A fact about to be present under a key, which holds `current` until then."""

    namespace: str
    key: str
    content: Content
    author: Author
    detail: dict[str, Any]
    current: Row | None


def content_of(line: VersionLine) -> Content:
    return Content(line.value, line.tags, to_json(line.metadata), stored(line.expires_at))


@dataclass(frozen=True)
class Arrivals:
    """One transaction's writes, in the name of who imports."""

    session: Session
    engine: Engine
    caller: Caller
    now: int

    def namespace(self, name: str) -> None:
        namespaces.ensure(self.session, name)

    def version(self, line: VersionLine) -> None:
        facts.insert_version(
            self.session,
            number=namespaces.ensure(self.session, line.namespace),
            key=line.key,
            version=line.version,
            value=line.value,
            tags=to_json(line.tags),
            metadata=to_json(line.metadata),
            expires_at=stored(line.expires_at),
            created_at=stored(line.created_at),
            written_at=stored(line.written_at),
            removed_at=stored(line.removed_at),
            source_client=line.source_client,
            principal=line.principal,
            self_reported=int(line.self_reported),
        )

    def point(self, arrival: Arrival, version: int) -> None:
        """Makes a version that is there the present one."""
        writing = Writing(self.session, self.engine, self.caller, self.now)
        number = namespaces.ensure(self.session, arrival.namespace)
        facts.point(writing, number, arrival.key, arrival.current, arrival.content, version)
        self._note(arrival, version)

    def write_next(self, arrival: Arrival) -> None:
        """Makes what arrives the next version, written now, by its author."""
        number = namespaces.ensure(self.session, arrival.namespace)
        version = facts.last_version(self.session, number, arrival.key) + 1
        current = arrival.current
        at = self.now if current is None else max(self.now, current["written_at"])
        facts.insert_version(
            self.session,
            number=number,
            key=arrival.key,
            version=version,
            value=arrival.content.value,
            tags=to_json(arrival.content.tags),
            metadata=arrival.content.metadata,
            expires_at=arrival.content.expires_at,
            created_at=at if current is None else current["created_at"],
            written_at=at,
            removed_at=None,
            source_client=arrival.author.source_client,
            principal=arrival.author.principal,
            self_reported=int(arrival.author.self_reported),
        )
        self.point(arrival, version)

    def event(self, line: EventLine) -> None:
        entry = Entry(
            at=stored(line.at) or 0,
            namespace=line.namespace,
            kind=line.event,
            caller=Caller.model_construct(
                principal=line.principal,
                source_client=line.source_client,
                self_reported=line.self_reported,
                claimed_client=line.claimed_client,
                request_id=line.request_id,
            ),
            key=line.key,
            version=line.version,
            version_before=line.version_before,
            version_after=line.version_after,
            body=line.body,
            detail=line.detail,
        )
        events.append(self.session, entry)

    def _note(self, arrival: Arrival, version: int) -> None:
        current = arrival.current
        entry = Entry(
            at=self.now,
            namespace=arrival.namespace,
            kind="import",
            caller=self.caller,
            key=arrival.key,
            version=version,
            version_before=None if current is None else current["version"],
            version_after=version,
            detail=arrival.detail,
        )
        events.append(self.session, entry)


def written(line: VersionLine) -> dict[str, Any]:
    """What an event says about who wrote a fact that somebody else imported."""
    return {"written_by": line.source_client, "written_at": iso(line.written_at)}
