"""The rows of a whole store as lines, some at a time, in the order of an export."""

from collections.abc import Callable, Iterator

from memory_store.engine import Row, Session
from memory_store.operations.lines import (
    EventLine,
    FactLine,
    NamespaceLine,
    VersionLine,
    event_line,
    version_line,
)
from memory_store.rows import FACT

AT_ONCE = 100
"""Rows in memory at a time; each may hold a value of its greatest length."""
TABLES = {
    "namespace": "namespace",
    "version": "fact_version",
    "fact": "fact",
    "event": "event",
}
"""Which table holds what a kind of line says."""

EVENT = (
    "SELECT e.*, n.name AS namespace FROM event e LEFT JOIN namespace n ON n.id = e.namespace_id"
)
_VERSIONS = (
    f"SELECT {FACT}, v.removed_at, f.id AS fact FROM fact_version v"
    " JOIN namespace n ON n.id = v.namespace_id"
    " LEFT JOIN fact f"
    " ON f.namespace_id = v.namespace_id AND f.key = v.key AND f.version = v.version"
    " WHERE v.namespace_id = :number AND (v.key, v.version) > (:key, :version)"
    " ORDER BY v.key, v.version LIMIT :limit"
)


def counts(session: Session) -> dict[str, int]:
    return {kind: count(session, table) for kind, table in TABLES.items()}


def count(session: Session, of: str, **parameters: object) -> int:
    row = session.one(f"SELECT count(*) AS n FROM {of}", **parameters)
    return int(row["n"]) if row else 0


def every_namespace(session: Session) -> list[NamespaceLine]:
    rows = session.all("SELECT name FROM namespace ORDER BY name")
    return [NamespaceLine(namespace=row["name"]) for row in rows]


def every_version(session: Session) -> Iterator[VersionLine | FactLine]:
    for namespace in session.all("SELECT id FROM namespace ORDER BY name"):
        for row in _versions_of(session, namespace["id"]):
            yield version_line(row)
            if row["fact"] is not None:
                yield FactLine(namespace=row["namespace"], key=row["key"], version=row["version"])


def every_event(session: Session) -> Iterator[EventLine]:
    for row in events_where(session, "1 = 1"):
        yield event_line(row)


def events_where(session: Session, condition: str, **parameters: object) -> Iterator[Row]:
    """`condition` is about `event e`."""

    def some(last: Row | None) -> list[Row]:
        return session.all(
            f"{EVENT} WHERE e.id > :after AND {condition} ORDER BY e.id LIMIT :limit",
            after=last["id"] if last else 0,
            limit=AT_ONCE,
            **parameters,
        )

    return paged(some)


def paged(some: Callable[[Row | None], list[Row]]) -> Iterator[Row]:
    """Every row of pages of which each begins behind the last row of the one before."""
    last: Row | None = None
    while rows := some(last):
        yield from rows
        last = rows[-1]


def _versions_of(session: Session, number: int) -> Iterator[Row]:
    def some(last: Row | None) -> list[Row]:
        return session.all(
            _VERSIONS,
            number=number,
            key=last["key"] if last else "",
            version=last["version"] if last else 0,
            limit=AT_ONCE,
        )

    return paged(some)
