"""How facts and events look in the database, and back."""

import json
import sys
from typing import Any

from memory_store.clock import moment
from memory_store.contract import Event, Fact, IndexState
from memory_store.engine import Filter, Row
from memory_store.namespaces import NUMBER

FACT = (
    "n.name AS namespace, v.namespace_id, v.key, v.value, v.version, v.tags, v.metadata,"
    " v.expires_at, v.created_at, v.written_at, v.source_client, v.principal, v.self_reported"
)
"""The columns of a fact's version, of `fact_version v JOIN namespace n`."""

PRESENT = (
    f"SELECT f.id, {FACT}, c.failed FROM fact f"
    " JOIN fact_version v"
    " ON v.namespace_id = f.namespace_id AND v.key = f.key AND v.version = f.version"
    " JOIN namespace n ON n.id = f.namespace_id"
    " LEFT JOIN change c ON c.subject = f.id"
)
"""Facts as they are now, with what their embedding waits for."""

OF_KEY = "f.namespace_id = :namespace AND f.key = :key"
"""Which fact is meant, by its namespace's number: a new one has an id that nobody knows yet."""

# `json.dumps` would make an encoder anew for each value.
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

SURROGATES = range(0xD800, 0xE000)


def index_state(row: Row) -> IndexState:
    if row["failed"] is None:
        return "ready"
    return "failed" if row["failed"] else "pending"


def fact_from(row: Row, *, present: bool = True) -> Fact:
    return Fact(
        namespace=row["namespace"],
        key=row["key"],
        value=row["value"],
        version=row["version"],
        tags=tuple(json.loads(row["tags"])),
        metadata=json.loads(row["metadata"]),
        expires_at=None if row["expires_at"] is None else moment(row["expires_at"]),
        created_at=moment(row["created_at"]),
        updated_at=moment(row["written_at"]),
        source_client=row["source_client"],
        principal=row["principal"],
        self_reported=bool(row["self_reported"]),
        index=index_state(row) if present else None,
    )


def event_from(row: Row) -> Event:
    return Event(
        id=row["id"],
        at=moment(row["at"]),
        namespace=row["namespace"],
        kind=row["kind"],
        key=row["key"],
        version=row["version"],
        value_before=row["value_before"],
        value_after=row["body"] if row["value_after"] is None else row["value_after"],
        source_client=row["source_client"],
        principal=row["principal"],
        self_reported=bool(row["self_reported"]),
        claimed_client=row["claimed_client"],
        request_id=row["request_id"],
        detail=json.loads(row["detail"]),
    )


def to_json(value: Any) -> str:
    return _encode(value)


def matching(namespace: str, prefix: str, tags: tuple[str, ...], now: int) -> Filter:
    """The facts of a namespace that are not expired, begin with `prefix` and have all `tags`."""
    conditions = [f"f.namespace_id = {NUMBER}", "(f.expires_at IS NULL OR f.expires_at > :now)"]
    parameters: dict[str, object] = {"namespace": namespace, "now": now}
    if prefix:
        conditions.append("f.key >= :prefix")
        parameters["prefix"] = prefix
        if (beyond := after_prefix(prefix)) is not None:
            conditions.append("f.key < :beyond")
            parameters["beyond"] = beyond
    for number, tag in enumerate(dict.fromkeys(tags)):
        conditions.append(
            f"EXISTS (SELECT 1 FROM fact_tag t WHERE t.fact_id = f.id AND t.tag = :tag{number})"
        )
        parameters[f"tag{number}"] = tag
    return Filter(" AND ".join(conditions), parameters, narrow=bool(prefix or tags))


def after_prefix(prefix: str) -> str | None:
    """Returns the first text beyond all that begin with `prefix`; None if there is none.

    Keys are compared by their UTF-8 bytes, whose order is that of the code points.
    """
    for length in range(len(prefix), 0, -1):
        point = ord(prefix[length - 1]) + 1
        if point in SURROGATES:
            point = SURROGATES.stop
        if point <= sys.maxunicode:
            return prefix[: length - 1] + chr(point)
    return None
