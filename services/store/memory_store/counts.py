"""Counts and sizes."""

from memory_store import changes
from memory_store.contract import Stats
from memory_store.engine import Engine, Session
from memory_store.namespaces import NUMBER


def stats(engine: Engine, session: Session, namespace: str | None, now: int) -> Stats:
    of = "1 = 1" if namespace is None else f"{{table}}.namespace_id = {NUMBER}"
    living = "(f.expires_at IS NULL OR f.expires_at > :now)"
    model = changes.model_in_use(session)
    return Stats(
        namespace=namespace,
        facts=_count(session, f"fact f WHERE {of.format(table='f')} AND {living}", namespace, now),
        versions=_count(session, f"fact_version v WHERE {of.format(table='v')}", namespace, now),
        events=_count(session, f"event e WHERE {of.format(table='e')}", namespace, now),
        embedded=_count(
            session,
            f"fact f WHERE {of.format(table='f')} AND {living} AND EXISTS (SELECT 1 FROM vector v"
            " JOIN model m ON m.id = v.model AND m.in_use = 1"
            " WHERE v.subject = f.id AND v.version = f.version)",
            namespace,
            now,
        ),
        backlog=changes.backlog(session, namespace),
        model=None if model is None else model.identity,
        namespaces=_count(
            session, f"(SELECT DISTINCT f.namespace_id FROM fact f WHERE {living}) n", None, now
        ),
        bytes=engine.size(session),
        free_bytes=engine.free_space(),
        engine=engine.name,
        schema_version=engine.schema_version(),
    )


def _count(session: Session, of: str, namespace: str | None, now: int) -> int:
    row = session.one(f"SELECT count(*) AS n FROM {of}", namespace=namespace, now=now)
    return int(row["n"]) if row else 0
