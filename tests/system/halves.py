"""What a write that was cut in half would leave in the database, each a query for its rows."""

from collections.abc import Iterator

from memory_store.engine import Session
from memory_store.store import SqlStore

_SAME = "x.namespace_id = v.namespace_id AND x.key = v.key"
_FACT = "fact v ON v.namespace_id = x.namespace_id AND v.key = x.key"
_SHARED = {
    "a version without the event that made it": (
        "SELECT v.key, v.version FROM fact_version v"
        f" LEFT JOIN event x ON {_SAME} AND x.version_after = v.version WHERE x.id IS NULL"
    ),
    "an event without the version that it made": (
        "SELECT x.key, x.version_after FROM event x"
        f" LEFT JOIN fact_version v ON {_SAME} AND v.version = x.version_after"
        " WHERE x.version_after IS NOT NULL AND v.key IS NULL"
    ),
    "a removal without its event": (
        "SELECT v.key, v.version FROM fact_version v"
        f" LEFT JOIN event x ON {_SAME} AND x.version = v.version"
        " AND x.kind IN ('delete', 'expire') WHERE v.removed_at IS NOT NULL AND x.id IS NULL"
    ),
    "a removed version that is still there": (
        "SELECT v.key, v.version FROM fact_version v"
        f" JOIN fact x ON {_SAME} AND x.version = v.version WHERE v.removed_at IS NOT NULL"
    ),
    "a fact that is not its newest version": (
        "SELECT x.key, x.version FROM fact x WHERE x.version <> (SELECT max(v.version)"
        f" FROM fact_version v WHERE {_SAME})"
    ),
    "a newest version that is neither there nor removed": (
        "SELECT x.key, max(x.version) FROM fact_version x"
        f" LEFT JOIN {_FACT} WHERE v.id IS NULL GROUP BY x.namespace_id, x.key"
        " HAVING coalesce(max(CASE WHEN x.removed_at IS NOT NULL THEN x.version END), 0)"
        " <> max(x.version)"
    ),
    "a fact that awaits no vector": (
        "SELECT v.key, v.version FROM fact v"
        " LEFT JOIN change x ON x.subject = v.id AND x.version = v.version WHERE x.sequence IS NULL"
    ),
    "a change without its fact": (
        "SELECT x.subject, x.version FROM change x LEFT JOIN fact v ON v.id = x.subject"
        " WHERE v.id IS NULL"
    ),
}
_TAGS = (
    "SELECT f.key, f.version FROM fact f JOIN fact_version v ON v.namespace_id = f.namespace_id"
    " AND v.key = f.key AND v.version = f.version WHERE json_array_length({tags})"
    " <> (SELECT count(*) FROM fact_tag t WHERE t.fact_id = f.id)"
)


def _derived(indexed: str, tags: str) -> dict[str, str]:
    """`indexed`: the facts in the lexical index; `tags`: a version's as the database takes JSON."""
    return {
        "a fact without its words": (
            f"SELECT v.key, v.version FROM fact v LEFT JOIN ({indexed}) x ON x.id = v.id"
            " WHERE x.id IS NULL"
        ),
        "words without their fact": (
            f"SELECT x.id, NULL FROM ({indexed}) x LEFT JOIN fact v ON v.id = x.id"
            " WHERE v.id IS NULL"
        ),
        "a fact without its tags": _TAGS.format(tags=tags),
    }


HALVES = {
    "sqlite": _SHARED | _derived("SELECT id FROM fact_words_docsize", "v.tags"),
    "postgres": _SHARED | _derived("SELECT DISTINCT fact_id AS id FROM fact_word", "v.tags::json"),
}
KINDS = tuple(HALVES["sqlite"])


def halves(store: SqlStore) -> Iterator[str]:
    """Yields what is wrong in a database without vectors, one sentence each."""
    with store.engine.read() as session:
        for kind, sql in HALVES[store.engine.name].items():
            for row in session.all(sql):
                key, version = row.values()
                yield f"{kind}: {key!r} in version {version}"
        if store.engine.name == "sqlite":
            yield from _faults_of_the_file(session)


def _faults_of_the_file(session: Session) -> Iterator[str]:
    for row in session.all("PRAGMA integrity_check"):
        if [*row.values()] != ["ok"]:
            yield f"the file: {row}"
    for row in session.all("PRAGMA foreign_key_check"):
        yield f"a reference into nothing: {row}"
