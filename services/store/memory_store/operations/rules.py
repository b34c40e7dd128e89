"""What holds between the tables of a whole store, each with the SQL that finds what breaks it."""

from dataclasses import dataclass

from memory_store.engine import Session

_NAMED = "JOIN namespace n ON n.id ="
_EMBEDDED = (
    "EXISTS (SELECT 1 FROM vector x LEFT JOIN model m ON m.in_use = 1"
    " WHERE x.subject = f.id AND x.version = f.version AND (m.id IS NULL OR m.id = x.model))"
)
_UNQUEUED = f"NOT {_EMBEDDED} AND NOT EXISTS (SELECT 1 FROM change c WHERE c.subject = f.id)"


def _no_fact(subject: str, version: str | None = None) -> str:
    same = f" AND f.version = {version}" if version else ""
    return f"NOT EXISTS (SELECT 1 FROM fact f WHERE f.id = {subject}{same})"


def _no_version(of: str, version: str) -> str:
    return (
        "NOT EXISTS (SELECT 1 FROM fact_version v"
        f" WHERE v.namespace_id = {of}.namespace_id AND v.key = {of}.key AND v.version = {version})"
    )


@dataclass(frozen=True)
class Rule:
    """`found` completes "SELECT {shown} FROM …"; `repair` is for what is derived from the facts."""

    name: str
    found: str
    shown: str = "f.key || ' (version ' || f.version || ' in ' || n.name || ')'"
    repair: str | None = None

    def count(self, session: Session, horizon: int) -> int:
        row = session.one(f"SELECT count(*) AS n FROM {self.found}", horizon=horizon)
        return int(row["n"]) if row else 0

    def examples(self, session: Session, horizon: int, limit: int) -> list[str]:
        rows = session.all(
            f"SELECT {self.shown} AS shown FROM {self.found} LIMIT :limit",
            horizon=horizon,
            limit=limit,
        )
        return [str(row["shown"]) for row in rows]


_FACT_AND_VERSION = (
    f"fact f {_NAMED} f.namespace_id JOIN fact_version v"
    " ON v.namespace_id = f.namespace_id AND v.key = f.key AND v.version = f.version"
)
_A_VERSION = "v.key || ' (version ' || v.version || ' in ' || n.name || ')'"
_AN_EVENT = "'event ' || e.id || ' (' || e.kind || ')'"

RULES = (
    Rule(
        "facts whose version is missing",
        f"fact f {_NAMED} f.namespace_id WHERE {_no_version('f', 'f.version')}",
    ),
    Rule(
        "facts that are not at their newest version",
        f"fact f {_NAMED} f.namespace_id WHERE EXISTS (SELECT 1 FROM fact_version v"
        " WHERE v.namespace_id = f.namespace_id AND v.key = f.key AND v.version > f.version)",
    ),
    Rule(
        "facts whose version was removed",
        f"{_FACT_AND_VERSION} WHERE v.removed_at IS NOT NULL",
    ),
    Rule(
        "facts that expire at another time than their version",
        f"{_FACT_AND_VERSION} WHERE coalesce(f.expires_at, -1) <> coalesce(v.expires_at, -1)",
    ),
    Rule(
        "versions that were not removed and are no longer there",
        f"fact_version v {_NAMED} v.namespace_id WHERE v.removed_at IS NULL"
        " AND NOT EXISTS (SELECT 1 FROM fact f"
        " WHERE f.namespace_id = v.namespace_id AND f.key = v.key)"
        " AND NOT EXISTS (SELECT 1 FROM fact_version w"
        " WHERE w.namespace_id = v.namespace_id AND w.key = v.key AND w.version > v.version)",
        _A_VERSION,
    ),
    Rule(
        "events of versions that are missing",
        "event e WHERE (e.version_before IS NOT NULL"
        f" AND {_no_version('e', 'e.version_before')}) OR (e.version_after IS NOT NULL"
        f" AND {_no_version('e', 'e.version_after')})",
        _AN_EVENT,
    ),
    Rule(
        "versions that no event tells of",
        f"fact_version v {_NAMED} v.namespace_id WHERE v.written_at >= :horizon"
        " AND NOT EXISTS (SELECT 1 FROM event e WHERE e.namespace_id = v.namespace_id"
        " AND e.key = v.key AND e.version_after = v.version)",
        _A_VERSION,
    ),
    Rule(
        "vectors of no fact, or of a version that was replaced",
        f"vector x WHERE {_no_fact('x.subject', 'x.version')}",
        "'vector ' || x.id",
        f"DELETE FROM vector WHERE {_no_fact('vector.subject', 'vector.version')}",
    ),
    Rule(
        "tags of no fact",
        f"fact_tag t WHERE {_no_fact('t.fact_id')}",
        "t.tag",
        f"DELETE FROM fact_tag WHERE {_no_fact('fact_tag.fact_id')}",
    ),
    Rule(
        "changes of no fact, or of a version that was replaced",
        f"change c WHERE {_no_fact('c.subject', 'c.version')}",
        "'change ' || c.sequence",
        f"DELETE FROM change WHERE {_no_fact('change.subject', 'change.version')}",
    ),
    Rule(
        "facts that have no vector and await none",
        f"fact f {_NAMED} f.namespace_id WHERE {_UNQUEUED}",
        repair="INSERT INTO change (subject, version)"
        f" SELECT f.id, f.version FROM fact f WHERE {_UNQUEUED}",
    ),
)
