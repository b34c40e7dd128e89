"""Namespaces: each a memory of its own, under a name that may change."""

from memory_store.contract import Conflict, NotFound
from memory_store.engine import Row, Session

NUMBER = "(SELECT id FROM namespace WHERE name = :namespace)"
"""SQL for the number behind the parameter `:namespace`; no row has it if there is no such name."""


def find(session: Session, name: str) -> int | None:
    row = session.one("SELECT id FROM namespace WHERE name = :name", name=name)
    return None if row is None else int(row["id"])


def ensure(session: Session, name: str) -> int:
    number = find(session, name)
    if number is not None:
        return number
    row = session.one("INSERT INTO namespace (name) VALUES (:name) RETURNING id", name=name)
    return int(row["id"]) if row else 0


def with_facts(session: Session, now: int) -> list[Row]:
    return session.all(
        "SELECT n.name, count(*) AS facts FROM namespace n JOIN fact f ON f.namespace_id = n.id"
        " WHERE f.expires_at IS NULL OR f.expires_at > :now GROUP BY n.name ORDER BY n.name",
        now=now,
    )


def rename(session: Session, namespace: str, name: str) -> None:
    """Raises `NotFound` and `Conflict`."""
    number = find(session, namespace)
    if number is None:
        raise NotFound(f"there is no namespace {namespace!r}", argument="namespace")
    if find(session, name) is not None:
        raise Conflict(
            f"there is a namespace {name!r} already; choose another name", argument="name"
        )
    session.run("UPDATE namespace SET name = :name WHERE id = :number", name=name, number=number)


def count_facts(session: Session, name: str, now: int) -> int:
    row = session.one(
        "SELECT count(*) AS n FROM fact f JOIN namespace n ON n.id = f.namespace_id"
        " WHERE n.name = :name AND (f.expires_at IS NULL OR f.expires_at > :now)",
        name=name,
        now=now,
    )
    return int(row["n"]) if row else 0
