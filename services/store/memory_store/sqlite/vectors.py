"""Nearest facts on SQLite: an index in memory that follows the vector table of all processes."""

import threading
from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from memory_store.engine import Filter, Session

if TYPE_CHECKING:
    from memory_store.vectors import VectorIndex

VARIABLES = 500
"""Ids in one statement; SQLite's own limit was 999 for long."""


class SqliteVectors:
    """Reads the whole table once, then only what `vector_log` says has changed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._index: VectorIndex | None = None
        self._model = ""
        self._seen = 0

    def nearest(
        self,
        session: Session,
        namespace: int,
        model: str,
        query: bytes,
        where: Filter,
        limit: int,
    ) -> dict[int, float]:
        index = self._current(session, model)
        allowed = self._allowed(session, where) if where.narrow else None
        return dict(index.rank(str(namespace), query, limit, allowed))

    def near(
        self, session: Session, namespace: int, model: str, query: bytes, facts: Collection[int]
    ) -> dict[int, float]:
        if not facts:
            return {}
        index = self._current(session, model)
        return dict(index.rank(str(namespace), query, len(facts), facts))

    def exact(
        self, session: Session, model: str, query: bytes, facts: Collection[int]
    ) -> dict[int, float]:
        from memory_store.vectors import rescore  # noqa: PLC0415 - numpy only where there are vectors

        vectors: dict[int, list[bytes]] = defaultdict(list)
        for fact, embedding in self._stored(session, model, list(facts)):
            vectors[fact].append(embedding)
        return rescore(query, vectors)

    def log_is_long(self, session: Session, most: int) -> bool:
        row = session.one("SELECT max(id) - min(id) AS entries FROM vector_log")
        return row is not None and (row["entries"] or 0) >= 2 * most

    def cut_log(self, session: Session, most: int) -> None:
        session.run(
            "DELETE FROM vector_log WHERE id <= (SELECT max(id) FROM vector_log) - :most",
            most=most,
        )

    def _allowed(self, session: Session, where: Filter) -> list[int]:
        rows = session.all(f"SELECT f.id FROM fact f WHERE {where.sql}", **where.parameters)
        return [row["id"] for row in rows]

    def _current(self, session: Session, model: str) -> "VectorIndex":
        with self._lock:
            if self._index is None or model != self._model or self._log_was_cut(session):
                self._index = self._load(session, model)
                self._model = model
            else:
                self._follow(session, self._index)
            return self._index

    def _log_was_cut(self, session: Session) -> bool:
        row = session.one("SELECT min(id) AS oldest FROM vector_log")
        oldest = row["oldest"] if row else None
        return oldest is not None and oldest > self._seen + 1

    def _load(self, session: Session, model: str) -> "VectorIndex":
        from memory_store.vectors import VectorIndex  # noqa: PLC0415 - numpy only where there are vectors

        index = VectorIndex()
        self._seen = self._newest(session)
        index.load(
            (str(row["namespace_id"]), row["subject"], row["embedding"])
            for row in session.all(
                "SELECT f.namespace_id, v.subject, v.embedding FROM vector v"
                " JOIN fact f ON f.id = v.subject"
                " JOIN model m ON m.id = v.model AND m.identity = :model"
                " ORDER BY v.subject, v.piece",
                model=model,
            )
        )
        return index

    def _newest(self, session: Session) -> int:
        row = session.one("SELECT coalesce(max(id), 0) AS id FROM vector_log")
        return int(row["id"]) if row else 0

    def _follow(self, session: Session, index: "VectorIndex") -> None:
        newest = self._newest(session)
        if newest == self._seen:
            return
        rows = session.all(
            "SELECT DISTINCT subject FROM vector_log WHERE id > :seen", seen=self._seen
        )
        self._refresh(session, index, [row["subject"] for row in rows])
        self._seen = max(newest, self._seen)

    def _refresh(self, session: Session, index: "VectorIndex", facts: list[int]) -> None:
        namespaces = self._namespaces(session, facts)
        vectors: dict[int, list[bytes]] = defaultdict(list)
        for fact, embedding in self._stored(session, self._model, facts):
            vectors[fact].append(embedding)
        for fact in facts:
            if fact in vectors and fact in namespaces:
                index.put(namespaces[fact], fact, vectors[fact])
            else:
                index.remove(fact)

    def _namespaces(self, session: Session, facts: list[int]) -> dict[int, str]:
        return {
            row["id"]: str(row["namespace_id"])
            for names, parameters in _in_parts(facts)
            for row in session.all(
                f"SELECT id, namespace_id FROM fact WHERE id IN ({names})",
                **parameters,
            )
        }

    def _stored(
        self, session: Session, model: str, facts: list[int]
    ) -> Iterator[tuple[int, bytes]]:
        for names, parameters in _in_parts(facts):
            for row in session.all(
                "SELECT v.subject, v.embedding FROM vector v"
                " JOIN model m ON m.id = v.model AND m.identity = :model"
                f" WHERE v.subject IN ({names}) ORDER BY v.subject, v.piece",
                model=model,
                **parameters,
            ):
                yield row["subject"], row["embedding"]


def _in_parts(ids: list[int]) -> Iterator[tuple[str, dict[str, object]]]:
    """Cuts a list into `:i0, :i1 …` with their parameters, as many as a statement takes."""
    for start in range(0, len(ids), VARIABLES):
        part = ids[start : start + VARIABLES]
        yield (
            ", ".join(f":i{n}" for n in range(len(part))),
            {f"i{n}": identity for n, identity in enumerate(part)},
        )
