"""The tags that facts have."""

from memory_store.engine import Session
from memory_store.rows import after_prefix, matching


def beginning_with(
    session: Session, namespace: str, prefix: str, limit: int, now: int
) -> list[str]:
    where = matching(namespace, "", (), now)
    conditions = [where.sql, "t.tag >= :first"]
    parameters = {**where.parameters, "first": prefix, "limit": limit}
    if (beyond := after_prefix(prefix)) is not None:
        conditions.append("t.tag < :beyond")
        parameters["beyond"] = beyond
    rows = session.all(
        "SELECT DISTINCT t.tag FROM fact_tag t JOIN fact f ON f.id = t.fact_id"
        f" WHERE {' AND '.join(conditions)} ORDER BY t.tag LIMIT :limit",
        **parameters,
    )
    return [row["tag"] for row in rows]
