"""Nearest facts on Postgres: pgvector, by its graph or, where little is asked for, exactly."""

from collections.abc import Collection

from memory_store.engine import Embedding, Filter, Row, Session

FLOAT_BYTES = 4
FEW = 1_000
"""Facts of which looking at each is as fast as the graph."""
MANY = 20_000
SHARE = 0.05
"""The share of all vectors below which the graph is left: it would mostly find others."""
WINDOWS = 1.5
"""Vectors asked for in place of one fact, at first."""


class PostgresVectors:
    def nearest(
        self,
        session: Session,
        namespace: int,
        model: str,
        query: bytes,
        where: Filter,
        limit: int,
    ) -> dict[int, float]:
        del namespace  # the filter names it
        number = _number(session, model)
        if number is None:
            return {}
        if _are_few(session, where):
            return _every(session, number, query, where, limit)
        return _by_graph(session, number, query, where, limit)

    def near(
        self, session: Session, namespace: int, model: str, query: bytes, facts: Collection[int]
    ) -> dict[int, float]:
        del namespace  # a fact is in one only
        return self.exact(session, model, query, facts)

    def exact(
        self, session: Session, model: str, query: bytes, facts: Collection[int]
    ) -> dict[int, float]:
        number = _number(session, model)
        if number is None or not facts:
            return {}
        return _cosines(
            session.all(
                "SELECT subject, max(1 - (embedding <=> :query)) AS cosine FROM vector"
                " WHERE subject = ANY (:facts) AND model = :number GROUP BY subject",
                query=Embedding(query),
                facts=list(facts),
                number=number,
            )
        )

    def log_is_long(self, session: Session, most: int) -> bool:
        """There is no log: the index is in the database."""
        del session, most
        return False

    def cut_log(self, session: Session, most: int) -> None:
        pass


def _number(session: Session, model: str) -> int | None:
    row = session.one("SELECT id FROM model WHERE identity = :model", model=model)
    return None if row is None else int(row["id"])


def _are_few(session: Session, where: Filter) -> bool:
    row = session.one(
        "SELECT greatest(reltuples, 0)::bigint AS n FROM pg_class"
        " WHERE oid = to_regclass('memory_bridge.vector')"
    )
    share = int(row["n"] * SHARE) if row else 0
    most = max(FEW, min(MANY, share))
    row = session.one(
        "SELECT count(*) AS n"
        f" FROM (SELECT 1 FROM fact f WHERE {where.sql} LIMIT :most) AS counted",
        **where.parameters,
        most=most,
    )
    return row is None or row["n"] < most


def _every(
    session: Session, model: int, query: bytes, where: Filter, limit: int
) -> dict[int, float]:
    return _cosines(
        session.all(
            f"WITH allowed AS MATERIALIZED (SELECT f.id FROM fact f WHERE {where.sql})"
            " SELECT v.subject, max(1 - (v.embedding <=> :query)) AS cosine"
            " FROM allowed JOIN vector v ON v.subject = allowed.id AND v.model = :number"
            " GROUP BY v.subject ORDER BY cosine DESC, v.subject LIMIT :limit",
            query=Embedding(query),
            number=model,
            limit=limit,
            **where.parameters,
        )
    )


def _by_graph(
    session: Session, model: int, query: bytes, where: Filter, limit: int
) -> dict[int, float]:
    """A fact may come several times, by each of its windows: asks until enough facts came."""
    windows = round(limit * WINDOWS)
    while True:
        rows = _windows(session, model, query, where, windows)
        found = _best(rows)
        if len(found) >= limit:
            return dict(list(found.items())[:limit])
        if len(rows) < windows:  # the graph gave up before the filter was satisfied
            return _every(session, model, query, where, limit)
        windows *= 4


def _windows(session: Session, model: int, query: bytes, where: Filter, count: int) -> list[Row]:
    # The very expression of the model's index, and its number as the index names it.
    kind = f"halfvec({len(query) // FLOAT_BYTES})"
    distance = f"v.embedding::{kind} <=> :query::{kind}"
    return session.all(
        f"SELECT v.subject, 1 - ({distance}) AS cosine FROM vector v"
        f" JOIN fact f ON f.id = v.subject WHERE v.model = {model:d} AND {where.sql}"
        f" ORDER BY {distance} LIMIT :count",
        query=Embedding(query),
        count=count,
        **where.parameters,
    )


def _best(rows: list[Row]) -> dict[int, float]:
    """The best cosine of each fact, best first."""
    best: dict[int, float] = {}
    for row in sorted(rows, key=lambda row: row["cosine"], reverse=True):
        best.setdefault(row["subject"], row["cosine"])
    return best


def _cosines(rows: list[Row]) -> dict[int, float]:
    return {row["subject"]: row["cosine"] for row in rows}
