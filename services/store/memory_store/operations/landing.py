"""How the lines of an import land in a store that may hold something under their keys already."""

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from memory_store import facts, limits, namespaces
from memory_store.clock import Clock
from memory_store.contract import Caller, Conflict, FactWrite, Invalid
from memory_store.engine import Engine, Row, Session
from memory_store.facts import Content
from memory_store.limits import Limits
from memory_store.operations.arrivals import Arrival, Arrivals, content_of, written
from memory_store.operations.known_events import KnownEvents
from memory_store.operations.lines import (
    EventLine,
    FactLine,
    Line,
    NamespaceLine,
    VersionLine,
    version_line,
)
from memory_store.rows import FACT, to_json

Policy = Literal["skip", "overwrite", "fail"]
Landed = Line | FactWrite
REFERENCE = {"from": "server-memory"}

_VERSION = (
    f"SELECT {FACT}, v.removed_at FROM fact_version v JOIN namespace n ON n.id = v.namespace_id"
    " WHERE n.name = :namespace AND v.key = :key AND v.version = :version"
)


@dataclass(frozen=True)
class Plan:
    """Who imports, what happens to keys that exist, and whether anything is written at all."""

    caller: Caller
    clock: Clock
    on_duplicate: Policy = "skip"
    dry_run: bool = False
    allowed: Limits = field(default_factory=Limits)


@dataclass
class _Key:
    """The key whose lines are being read. `known` is the newest version the store had of it."""

    namespace: str
    key: str
    known: int
    newest: VersionLine | None = None
    foreign: bool = False
    """Whether the store has another history of this key than the file."""

    @property
    def latest(self) -> int:
        return max(self.known, self.newest.version if self.newest else 0)

    def read(self, line: VersionLine, stored: Row | None) -> None:
        self.newest = line
        if stored is not None and not version_line(stored).says_the_same(line):
            self.foreign = True

    def said(self, version: int) -> VersionLine | None:
        return self.newest if self.newest and self.newest.version == version else None


class Landing:
    """Decides line by line, in two rounds over the same lines: first the history, then which
    version of a key is present, so that the trail tells of an import after what it brought.

    Nothing is remembered of a line but of the key that is being read: what landed before is found
    there and left alone.
    """

    def __init__(self, engine: Engine, plan: Plan) -> None:
        self.tally: Counter[str] = Counter()
        self.duplicate: str | None = None
        self._engine = engine
        self._plan = plan
        self._key: _Key | None = None
        self._foreign: set[tuple[str | None, str | None]] = set()
        self._known: KnownEvents | None = None

    def expect_events(self) -> None:
        """To be called before the first event, and outside of a transaction that writes."""
        if self._known is None:
            with self._engine.read() as session:
                self._known = KnownEvents(session)

    def land_history(self, session: Session, line: Landed) -> None:
        """Raises `Invalid` before anything of the line is written."""
        if isinstance(line, FactWrite):
            limits.check_write(line, self._plan.allowed)
            return
        line.check(self._plan.allowed)
        writes = self._writes(session)
        match line:
            case NamespaceLine():
                if writes is not None:
                    writes.namespace(line.namespace)
            case VersionLine():
                self._version(session, writes, line)
            case EventLine():
                self._event(writes, line)
            case FactLine():
                pass

    def land_present(self, session: Session, line: Landed) -> None:
        """As `land_history`; raises `Conflict` by policy."""
        match line:
            case VersionLine():
                self._turn_to(session, line).read(line, _stored(session, line))
            case FactLine():
                self._fact(session, self._writes(session), line)
            case FactWrite():
                self._loose(session, self._writes(session), line)
            case _:
                pass

    def _writes(self, session: Session) -> Arrivals | None:
        if self._plan.dry_run:
            return None
        return Arrivals(session, self._engine, self._plan.caller, self._plan.clock())

    def _version(self, session: Session, writes: Arrivals | None, line: VersionLine) -> None:
        key = self._turn_to(session, line)
        row = _stored(session, line)
        key.read(line, row)
        if key.foreign:
            self._foreign.add((key.namespace, key.key))
        elif row is None:
            self.tally["versions"] += 1
            if writes is not None:
                writes.version(line)

    def _fact(self, session: Session, writes: Arrivals | None, line: FactLine) -> None:
        key = self._turn_to(session, line)
        row = _stored(session, line)
        said = key.said(line.version) or (version_line(row) if row else None)
        if said is None:
            raise Invalid(f"no version {line.version} of {line.key!r} stands before it")
        current = facts.present(session, line.namespace, line.key)
        arrival = Arrival(line.namespace, line.key, content_of(said), said, written(said), current)
        is_gone = row is not None and row["removed_at"] is not None
        if key.foreign or line.version < key.latest or is_gone:
            self._arrive(writes, arrival)
        elif current is not None and current["version"] == line.version:
            self.tally["facts there already"] += 1
        else:
            self.tally["facts"] += 1
            if writes is not None:
                writes.point(arrival, line.version)

    def _loose(self, session: Session, writes: Arrivals | None, write: FactWrite) -> None:
        content = Content(write.value, write.tags or (), to_json(write.metadata or {}), None)
        current = facts.present(session, write.namespace, write.key)
        author = self._plan.caller
        self._arrive(
            writes, Arrival(write.namespace, write.key, content, author, REFERENCE, current)
        )

    def _arrive(self, writes: Arrivals | None, arrival: Arrival) -> None:
        """Takes a fact in whose key has a history of its own here, or none."""
        current, content = arrival.current, arrival.content
        if current is not None and _says(current, content):
            self.tally["facts there already"] += 1
        elif content.expires_at is not None and content.expires_at <= self._plan.clock():
            self.tally["facts that have expired"] += 1
        elif current is not None and not self._may_overwrite(arrival.key):
            self.tally["facts kept as they were"] += 1
        else:
            self.tally["facts" if current is None else "facts overwritten"] += 1
            if writes is not None:
                writes.write_next(arrival)

    def _may_overwrite(self, key: str) -> bool:
        self.duplicate = self.duplicate or key
        if self._plan.on_duplicate == "fail" and not self._plan.dry_run:
            raise Conflict(f"{key!r} exists already; the import ended there")
        return self._plan.on_duplicate == "overwrite"

    def _event(self, writes: Arrivals | None, line: EventLine) -> None:
        if (line.namespace, line.key) in self._foreign:
            self.tally["events left out"] += 1
        elif self._known is not None and self._known.recognise(line):
            self.tally["events there already"] += 1
        else:
            self.tally["events"] += 1
            if writes is not None:
                writes.event(line)

    def _turn_to(self, session: Session, line: VersionLine | FactLine) -> _Key:
        key = self._key
        if key is None or (key.namespace, key.key) != (line.namespace, line.key):
            number = namespaces.find(session, line.namespace)
            known = 0 if number is None else facts.last_version(session, number, line.key)
            key = self._key = _Key(line.namespace, line.key, known)
        return key


def _stored(session: Session, line: VersionLine | FactLine) -> Row | None:
    return session.one(_VERSION, namespace=line.namespace, key=line.key, version=line.version)


def _says(current: Row, content: Content) -> bool:
    return (
        current["value"] == content.value
        and tuple(json.loads(current["tags"])) == content.tags
        and json.loads(current["metadata"]) == json.loads(content.metadata)
        and current["expires_at"] == content.expires_at
    )
