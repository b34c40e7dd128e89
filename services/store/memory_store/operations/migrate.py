"""Migrate: a whole memory moves into another database, and both sides are compared."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from memory_store.contract import Word
from memory_store.engine import Row, Session
from memory_store.moving import TABLES, Destination, Origin, Place, Table, count_rows
from memory_store.operations.backup import told
from memory_store.operations.progress import Progress
from memory_store.operations.report import Report, counted
from memory_store.reindex import fill_words

AT_ONCE = 200
"""Rows in memory at a time; each may hold a value of its greatest length."""
CHECKSUM_BYTES = 8
INDEXED = "words indexed"


class Content(Word):
    """How many rows a table has, and the sum of their hashes, which no order changes."""

    rows: int
    checksum: str


class MovedTable(Word):
    name: str
    origin: Content
    destination: Content

    @property
    def is_same(self) -> bool:
        return self.origin == self.destination

    def sentence(self) -> str:
        count = counted({"rows": self.origin.rows})
        if self.is_same:
            return f"{self.name}: {count}, checksum {self.origin.checksum} on both sides"
        there = counted({"rows": self.destination.rows})
        return (
            f"{self.name} differs: {count}, checksum {self.origin.checksum} before,"
            f" {there}, checksum {self.destination.checksum} after"
        )


class Migrated(Report):
    origin: str
    destination: str
    tables: tuple[MovedTable, ...]

    @property
    def is_good(self) -> bool:
        return all(table.is_same for table in self.tables)

    def sentences(self) -> list[str]:
        compared = [table.sentence() for table in self.tables]
        if not self.is_good:
            return [*compared, f"nothing was moved: {self.destination} is empty as before"]
        held = told({table.name: table.origin.rows for table in self.tables})
        return [
            *compared,
            f"{self.destination} holds {counted(held)}, as {self.origin} still does",
        ]


class Migratable(Report):
    """What would be moved, by the names of the tables."""

    origin: str
    destination: str
    rows: dict[str, int]

    def sentences(self) -> list[str]:
        return [f"would move {counted(told(self.rows))} from {self.origin} to {self.destination}"]


def migrate(origin: Place, destination: Place, progress: Progress) -> Migrated:
    """Fills the destination in one transaction, reads it again, and keeps it if nothing differs.

    Whatever ends it early leaves the origin as it was and the destination empty.
    """
    with origin.origin() as before, destination.destination() as after:
        move = _Move(before, after, progress)
        moved = [(table, move.copy(table)) for table in TABLES]
        move.complete()
        report = Migrated(
            origin=origin.name,
            destination=destination.name,
            tables=tuple(
                MovedTable(name=table.name, origin=content, destination=move.read_again(table))
                for table, content in moved
            ),
        )
        if report.is_good:
            after.commit()
    return report


def rehearse(origin: Place, destination: Place) -> Migratable:
    """Returns what would be moved. Raises what `migrate` would, and makes nothing."""
    with origin.origin() as before:
        rows = {table.name: count_rows(before.session, table) for table in TABLES}
    destination.look()
    return Migratable(origin=origin.name, destination=destination.name, rows=rows)


class _Move:
    def __init__(self, before: Origin, after: Destination, progress: Progress) -> None:
        self._before = before
        self._after = after
        self._progress = progress
        self._expected = {table.name: count_rows(before.session, table) for table in TABLES}
        self._done: Counter[str] = Counter()

    def copy(self, table: Table) -> Content:
        content = _Sum()
        for rows in _pages(self._before.session, table):
            content.add(rows)
            self._after.add(table, rows)
            self._step("copied", len(rows))
        return content.total()

    def complete(self) -> None:
        """Makes what is not copied: the index of words, and whatever the database needs."""
        fill_words(self._after.text, self._after.session, partial(self._step, INDEXED))
        self._progress("made ready", 0, 1)
        self._after.complete(
            {table.name: self._before.last_number(table) for table in TABLES if table.counts}
        )

    def read_again(self, table: Table) -> Content:
        content = _Sum()
        for rows in _pages(self._after.session, table):
            content.add(rows)
            self._step("compared", len(rows))
        return content.total()

    def _step(self, what: str, rows: int) -> None:
        self._done[what] += rows
        facts = self._expected["fact"]
        total = facts if what == INDEXED else sum(self._expected.values())
        self._progress(what, self._done[what], total)


@dataclass
class _Sum:
    rows: int = 0
    hashes: int = 0

    def add(self, rows: Sequence[Row]) -> None:
        self.rows += len(rows)
        self.hashes += sum(map(_hash, rows))

    def total(self) -> Content:
        checksum = self.hashes % 256**CHECKSUM_BYTES
        return Content(rows=self.rows, checksum=f"{checksum:0{2 * CHECKSUM_BYTES}x}")


def _hash(row: Row) -> int:
    text = json.dumps(dict(row), sort_keys=True, default=bytes.hex)
    digest = hashlib.blake2b(text.encode(), digest_size=CHECKSUM_BYTES)
    return int.from_bytes(digest.digest())


def _pages(session: Session, table: Table) -> Iterator[list[Row]]:
    key = ", ".join(table.key)
    beyond = ", ".join(f":{name}" for name in table.key)
    condition, last = "", {}
    while rows := session.all(
        f"SELECT * FROM {table.name} {condition} ORDER BY {key} LIMIT {AT_ONCE}", **last
    ):
        yield rows
        condition, last = (
            f"WHERE ({key}) > ({beyond})",
            {name: rows[-1][name] for name in table.key},
        )
