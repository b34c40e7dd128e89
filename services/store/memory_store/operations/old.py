"""What is older than a moment: events, and versions that were replaced or removed before it."""

from collections.abc import Iterator

from memory_store.engine import Row, Session
from memory_store.operations.reading import count, events_where, paged
from memory_store.rows import FACT

_EVENT = "e.at < :until AND e.id <= :last AND e.kind <> 'retain'"
_VERSION = (
    "fact_version v JOIN namespace n ON n.id = v.namespace_id"
    # The newest version of a key stays even when it was removed: numbers go on from it.
    " JOIN fact_version w ON w.namespace_id = v.namespace_id AND w.key = v.key"
    " AND w.version = (SELECT min(x.version) FROM fact_version x"
    " WHERE x.namespace_id = v.namespace_id AND x.key = v.key AND x.version > v.version)"
    " WHERE coalesce(v.removed_at, w.written_at) < :until"
    " AND NOT EXISTS (SELECT 1 FROM fact f"
    " WHERE f.namespace_id = v.namespace_id AND f.key = v.key AND f.version = v.version)"
    " AND NOT EXISTS (SELECT 1 FROM event e WHERE e.namespace_id = v.namespace_id"
    " AND e.key = v.key AND (e.version_before = v.version OR e.version_after = v.version)"
    f" AND NOT ({_EVENT}))"
)
AT_ONCE = 100


class Old:
    """Seen in one transaction. Events that tell of a retention are never old."""

    def __init__(self, session: Session, until: int) -> None:
        self._session = session
        newest = session.one("SELECT coalesce(max(id), 0) AS id FROM event")
        self._bounds = {"until": until, "last": newest["id"] if newest else 0}

    def count_events(self) -> int:
        return count(self._session, f"event e WHERE {_EVENT}", **self._bounds)

    def count_versions(self) -> int:
        return count(self._session, _VERSION, **self._bounds)

    def events(self) -> Iterator[Row]:
        return events_where(self._session, _EVENT, **self._bounds)

    def versions(self) -> Iterator[Row]:
        def some(last: Row | None) -> list[Row]:
            return self._session.all(
                f"SELECT {FACT}, v.removed_at FROM {_VERSION}"
                " AND (v.namespace_id, v.key, v.version) > (:number, :key, :version)"
                " ORDER BY v.namespace_id, v.key, v.version LIMIT :limit",
                number=last["namespace_id"] if last else 0,
                key=last["key"] if last else "",
                version=last["version"] if last else 0,
                limit=AT_ONCE,
                **self._bounds,
            )

        return paged(some)
