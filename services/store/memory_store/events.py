"""The audit trail: appending to it within a write, behind a read, and reading it."""

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from memory_store import namespaces
from memory_store.clock import milliseconds
from memory_store.contract import (
    READ_KINDS,
    Caller,
    EventFeed,
    EventFilter,
    EventKind,
    EventPage,
    StoreError,
)
from memory_store.cursors import Cursor
from memory_store.engine import Engine, Session
from memory_store.namespaces import NUMBER
from memory_store.rows import event_from, to_json

logger = logging.getLogger(__name__)

_INSERT = (
    "INSERT INTO event (at, namespace_id, kind, key, version, version_before, version_after, body,"
    " detail, source_client, principal, self_reported, claimed_client, request_id)"
    " VALUES (:at, :number, :kind, :key, :version, :version_before, :version_after, :body,"
    " :detail, :source_client, :principal, :self_reported, :claimed_client, :request_id)"
)
_SELECT = (
    "SELECT e.*, n.name AS namespace, b.value AS value_before, a.value AS value_after FROM event e"
    " LEFT JOIN namespace n ON n.id = e.namespace_id"
    " LEFT JOIN fact_version b ON b.namespace_id = e.namespace_id AND b.key = e.key"
    " AND b.version = e.version_before"
    " LEFT JOIN fact_version a ON a.namespace_id = e.namespace_id AND a.key = e.key"
    " AND a.version = e.version_after"
)
_READS = ", ".join(f"'{kind}'" for kind in READ_KINDS)


@dataclass(frozen=True)
class Entry:
    """An event before it has a number."""

    at: int
    namespace: str | None
    kind: EventKind
    caller: Caller
    key: str | None = None
    version: int | None = None
    version_before: int | None = None
    version_after: int | None = None
    body: str | None = None
    detail: dict[str, Any] = field(default_factory=dict[str, Any])
    number: int | None = None
    """The namespace's, where it is known already."""


def append(session: Session, entry: Entry) -> None:
    session.later(
        _INSERT,
        at=entry.at,
        number=_number(session, entry),
        kind=entry.kind,
        key=entry.key,
        version=entry.version,
        version_before=entry.version_before,
        version_after=entry.version_after,
        body=entry.body,
        detail=to_json(entry.detail),
        source_client=entry.caller.source_client,
        principal=entry.caller.principal,
        self_reported=int(entry.caller.self_reported),
        claimed_client=entry.caller.claimed_client,
        request_id=entry.caller.request_id,
    )


def _number(session: Session, entry: Entry) -> int | None:
    if entry.namespace is None or entry.number is not None:
        return entry.number
    return namespaces.ensure(session, entry.namespace)


def page(
    session: Session,
    namespace: str | None,
    key: str | None,
    limit: int,
    cursor: str | None,
    *,
    include_reads: bool,
    only: EventFilter,
) -> EventPage:
    place = Cursor("event_list", namespace, key, include_reads, only)
    conditions, parameters = _matching(namespace, key, only, include_reads=include_reads)
    if cursor is not None:
        conditions.append("e.id < :before")
        parameters["before"] = place.read(cursor, int)
    rows = session.all(
        f"{_SELECT} WHERE {' AND '.join(conditions)} ORDER BY e.id DESC LIMIT :limit",
        **parameters,
        limit=limit + 1,
    )
    events = tuple(event_from(row) for row in rows[:limit])
    return EventPage(
        events=events, next_cursor=place.write(events[-1].id) if len(rows) > limit else None
    )


def feed(
    session: Session,
    after: int,
    settled: int,
    namespace: str | None,
    limit: int,
    *,
    include_reads: bool,
) -> EventFeed:
    """The events after `after` up to `settled`, beyond which some may still be missing."""
    conditions, parameters = _matching(namespace, None, EventFilter(), include_reads=include_reads)
    rows = session.all(
        f"{_SELECT} WHERE {' AND '.join(conditions)} AND e.id > :after AND e.id <= :settled"
        " ORDER BY e.id LIMIT :limit",
        **parameters,
        after=after,
        settled=settled,
        limit=limit,
    )
    events = tuple(event_from(row) for row in rows)
    reached = events[-1].id if len(events) == limit else max(settled, after)
    return EventFeed(events=events, after=reached)


def _matching(
    namespace: str | None, key: str | None, only: EventFilter, *, include_reads: bool
) -> tuple[list[str], dict[str, object]]:
    conditions: list[str] = ["1 = 1"]
    parameters: dict[str, object] = {}
    if not include_reads and not set(only.kinds) & set(READ_KINDS):
        conditions.append(f"e.kind NOT IN ({_READS})")
    if only.kinds:
        names = {f"kind{number}": kind for number, kind in enumerate(only.kinds)}
        conditions.append(f"e.kind IN ({', '.join(f':{name}' for name in names)})")
        parameters.update(names)
    wanted: list[tuple[str, str, object]] = [
        (f"e.namespace_id = {NUMBER}", "namespace", namespace),
        ("e.key = :key", "key", key),
        ("e.source_client = :client", "client", only.source_client),
        ("e.at >= :since", "since", only.since and milliseconds(only.since)),
        ("e.at < :until", "until", only.until and milliseconds(only.until)),
    ]
    for condition, name, value in wanted:
        if value is not None:
            conditions.append(condition)
            parameters[name] = value
    return conditions, parameters


class ReadTrail:
    """Appends the events of reads in the background, in batches, so that no read waits to write."""

    WAIT_SECONDS = 0.25
    KEPT = 50_000
    """Reads that are remembered while the database cannot be written; older ones are dropped."""
    AT_ONCE = 1000
    """Events in one transaction, so that no write waits long behind them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._entries: deque[Entry] = deque(maxlen=self.KEPT)
        self._work = threading.Event()
        self._closed = threading.Event()
        self._flushing = threading.Lock()
        self._thread = threading.Thread(target=self._serve, name="read-trail", daemon=True)
        self._thread.start()

    def add(self, entries: Iterable[Entry]) -> None:
        self._entries.extend(entries)
        self._work.set()

    def close(self) -> None:
        self._closed.set()
        self._work.set()
        self._thread.join()
        self.flush()

    def flush(self) -> None:
        """Writes what was read so far; what cannot be written now stays for the next time."""
        with self._flushing:
            while entries := self._take():
                try:
                    self._engine.write(partial(_append_all, entries), locks=())
                except StoreError as error:
                    self._put_back(entries)
                    logger.warning("read events wait to be written: %s", error.message)
                    return

    def _take(self) -> list[Entry]:
        return [self._entries.popleft() for _ in range(min(len(self._entries), self.AT_ONCE))]

    def _put_back(self, entries: list[Entry]) -> None:
        room = self.KEPT - len(self._entries)
        self._entries.extendleft(reversed(entries[-room:] if room > 0 else []))

    def _serve(self) -> None:
        while not self._closed.is_set():
            self._work.wait()
            self._work.clear()
            self._closed.wait(self.WAIT_SECONDS)
            with contextlib.suppress(Exception):
                self.flush()
            if self._entries:
                self._work.set()


def _append_all(entries: list[Entry], session: Session) -> None:
    names = {entry.namespace for entry in entries if entry.namespace is not None}
    numbers: dict[str | None, int] = {
        name: namespaces.ensure(session, name) for name in sorted(names)
    }
    for entry in entries:
        append(session, replace(entry, number=numbers.get(entry.namespace)))
