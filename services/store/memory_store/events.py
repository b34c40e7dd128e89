"""The audit trail: appending to it within a write, behind a read, and reading it."""

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from memory_store import namespaces
from memory_store.contract import READ_KINDS, Caller, EventKind, EventPage, StoreError
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
    namespace: str
    kind: EventKind
    caller: Caller
    key: str | None = None
    version: int | None = None
    version_before: int | None = None
    version_after: int | None = None
    body: str | None = None
    detail: dict[str, Any] = field(default_factory=dict[str, Any])


def append(session: Session, entry: Entry) -> None:
    session.run(
        _INSERT,
        at=entry.at,
        number=namespaces.ensure(session, entry.namespace),
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


def page(
    session: Session,
    namespace: str,
    key: str | None,
    limit: int,
    cursor: str | None,
    *,
    include_reads: bool,
) -> EventPage:
    place = Cursor("event_list", namespace, key, include_reads)
    conditions = [f"e.namespace_id = {NUMBER}"]
    parameters: dict[str, object] = {"namespace": namespace, "limit": limit + 1}
    if key is not None:
        conditions.append("e.key = :key")
        parameters["key"] = key
    if not include_reads:
        conditions.append(f"e.kind NOT IN ({_READS})")
    if cursor is not None:
        conditions.append("e.id < :before")
        parameters["before"] = place.read(cursor, int)
    rows = session.all(
        f"{_SELECT} WHERE {' AND '.join(conditions)} ORDER BY e.id DESC LIMIT :limit",
        **parameters,
    )
    events = tuple(event_from(row) for row in rows[:limit])
    return EventPage(
        events=events, next_cursor=place.write(events[-1].id) if len(rows) > limit else None
    )


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
                    self._engine.write(partial(_append_all, entries))
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
    for entry in entries:
        append(session, entry)
