"""Namespaces: each a memory of its own, under a name that may change."""

from memory_store.contract import Conflict, NotFound
from memory_store.engine import Row, Session

NUMBER = "(SELECT id FROM namespace WHERE name = :namespace)"
"""SQL for the number behind the parameter `:namespace`; no row has it if there is no such name."""


def lock(name: str) -> str:
    """The name of what a write to all facts of the namespace decides by."""
    return f"namespace {name!r}"


def find(session: Session, name: str) -> int | None:
    row = session.one("SELECT id FROM namespace WHERE name = :name", name=name)
    return None if row is None else int(row["id"])


def ensure(session: Session, name: str) -> int:
    number = find(session, name)
    if number is not None:
        return number
    # Somebody else may have made it since.
    row = session.one(
        "INSERT INTO namespace (name) VALUES (:name)"
        " ON CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING id",
        name=name,
    )
    return int(row["id"]) if row else 0


def with_facts(session: Session, now: int) -> list[Row]:
    return session.all(
        "SELECT n.name, count(*) AS facts FROM namespace n JOIN fact f ON f.namespace_id = n.id"
        " WHERE f.expires_at IS NULL OR f.expires_at > :now GROUP BY n.name ORDER BY n.name",
        now=now,
    )


def existing(session: Session, namespace: str) -> int:
    """Returns the number of a namespace that holds or held facts; asking for some makes none.

    Raises `NotFound`.
    """
    number = _used(session, namespace)
    if number is None:
        raise NotFound(f"there is no namespace {namespace!r}", argument="namespace")
    return number


def rename(session: Session, namespace: str, name: str) -> None:
    """Raises `NotFound` and `Conflict`."""
    number = existing(session, namespace)
    if _used(session, name) is not None:
        raise Conflict(
            f"the name {name!r} is taken by a namespace that holds facts or their versions;"
            " choose another",
            argument="name",
        )
    if (asked := find(session, name)) is not None:
        _join(session, asked, number)
    session.run("UPDATE namespace SET name = :name WHERE id = :number", name=name, number=number)


def count_facts(session: Session, name: str, now: int) -> int:
    row = session.one(
        "SELECT count(*) AS n FROM fact f JOIN namespace n ON n.id = f.namespace_id"
        " WHERE n.name = :name AND (f.expires_at IS NULL OR f.expires_at > :now)",
        name=name,
        now=now,
    )
    return int(row["n"]) if row else 0


def _used(session: Session, name: str) -> int | None:
    row = session.one(
        "SELECT n.id FROM namespace n WHERE n.name = :name"
        " AND EXISTS (SELECT 1 FROM fact_version v WHERE v.namespace_id = n.id)",
        name=name,
    )
    return None if row is None else int(row["id"])


def _join(session: Session, asked: int, number: int) -> None:
    """The events of who asked in vain under a name go on to be of that name."""
    session.run(
        "UPDATE event SET namespace_id = :number WHERE namespace_id = :asked",
        number=number,
        asked=asked,
    )
    session.run("DELETE FROM namespace WHERE id = :asked", asked=asked)
