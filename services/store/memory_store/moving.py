"""A whole database as a move needs it: one that is only read, and one that is filled."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from memory_store.contract import Conflict, Invalid, NotFound
from memory_store.engine import Row, Session, TextIndex
from memory_store.migrations import outstanding


@dataclass(frozen=True)
class Table:
    """`key` orders its rows; `counts` where a number that was given once is never given again."""

    name: str
    key: tuple[str, ...]
    counts: bool = False


TABLES = (
    Table("namespace", ("id",)),
    Table("fact_version", ("namespace_id", "key", "version")),
    Table("fact", ("id",), counts=True),
    Table("fact_tag", ("fact_id", "tag")),
    Table("event", ("id",), counts=True),
    Table("idempotency", ("principal", "source_client", "key")),
    Table("change", ("sequence",), counts=True),
    Table("model", ("id",)),
    Table("vector", ("id",)),
    Table("token", ("name",)),
    Table("token_secret", ("digest",)),
)
"""All that a memory is, what is referred to first. The other tables are made from these."""
OF_EVERY_SERVER = ("model",)
"""Tables in which a server leaves rows merely by having been started."""


class Origin(Protocol):
    """A database that nobody else has open, as it was when it was opened. It is not changed."""

    @property
    def session(self) -> Session: ...

    def last_number(self, table: Table) -> int:
        """Returns the highest number that a table that counts ever gave, 0 for none."""
        ...


class Destination(Protocol):
    """An empty database that nobody else has open, filled in one transaction."""

    @property
    def session(self) -> Session: ...

    @property
    def text(self) -> TextIndex: ...

    def add(self, table: Table, rows: Sequence[Row]) -> None: ...

    def complete(self, numbers: Mapping[str, int]) -> None:
        """Has what is written later go on as it would have at the origin.

        `numbers` are the last that were given, by the names of the tables that count.
        """
        ...

    def commit(self) -> None:
        """Keeps what was added. Without it the database stays empty."""
        ...


class Place(Protocol):
    """Where a memory may be moved from or to.

    Each method may raise `Busy` when a store is open there, `SchemaTooNew`, `Unavailable`, and
    `NotOurs` for a file of something else.
    """

    @property
    def name(self) -> str:
        """Where it is, for people: without a password."""
        ...

    def origin(self) -> AbstractContextManager[Origin]:
        """Raises `NotFound` for nothing there, `Invalid` for what an earlier version left."""
        ...

    def destination(self) -> AbstractContextManager[Destination]:
        """Makes what is missing. Raises `Conflict` when something is there."""
        ...

    def look(self) -> None:
        """Raises what `destination` would, where that can be known, and makes nothing."""
        ...


def check_version(engine: str, version: int, place: str) -> None:
    """Lets an origin of this version pass: an older one would have to be changed to be read.

    Raises `NotFound` for one without a schema, `Invalid`, `SchemaTooNew`.
    """
    if not version:
        raise NotFound(f"there is no memory at {place}; nothing was moved")
    if outstanding(engine, version):
        raise Invalid(
            f"the memory at {place} is from an earlier version; back it up, open it once with this"
            " one (memory-bridge check will do), then move it"
        )


def refuse_unless_empty(session: Session, place: str) -> None:
    """Raises `Conflict`, naming what is there."""
    held = {
        table.name: count
        for table in TABLES
        if table.name not in OF_EVERY_SERVER and (count := count_rows(session, table))
    }
    if held:
        found = ", ".join(f"{count:,} in {name}" for name, count in held.items())
        raise Conflict(
            f"{place} is not empty, it holds rows ({found}); nothing was moved, name another target"
        )


def count_rows(session: Session, table: Table) -> int:
    row = session.one(f"SELECT count(*) AS n FROM {table.name}")
    return int(row["n"]) if row else 0
