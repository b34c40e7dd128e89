"""A SQLite file as the origin or the destination of a move."""

import os
import sqlite3
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from memory_store.contract import Busy, NotFound, Unavailable
from memory_store.engine import Row
from memory_store.migrations import outstanding
from memory_store.moving import OF_EVERY_SERVER, Table, check_version, refuse_unless_empty
from memory_store.sqlite.connection import SqliteSession, dict_row, is_busy
from memory_store.sqlite.copies import alone, own_errors
from memory_store.sqlite.file import NotOurs, check_ours, make, migrate, user_version
from memory_store.sqlite.text import SqliteText

COMPANIONS = ("", "-wal", "-shm", "-journal")


class SqliteOrigin:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self.session = SqliteSession(connection)

    def last_number(self, table: Table) -> int:
        row = self.session.one(
            "SELECT seq AS number FROM sqlite_sequence WHERE name = :name", name=table.name
        )
        return int(row["number"]) if row else 0


class SqliteDestination:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self.session = SqliteSession(connection)
        self.text = SqliteText()

    def add(self, table: Table, rows: Sequence[Row]) -> None:
        names = ", ".join(rows[0])
        values = ", ".join(f":{name}" for name in rows[0])
        self.session.connection.executemany(
            f"INSERT INTO {table.name} ({names}) VALUES ({values})", rows
        )

    def complete(self, numbers: Mapping[str, int]) -> None:
        for name, number in numbers.items():
            self.session.run("DELETE FROM sqlite_sequence WHERE name = :name", name=name)
            self.session.run(
                "INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :number)",
                name=name,
                number=number,
            )

    def commit(self) -> None:
        self.session.connection.execute("COMMIT")


class SqlitePlace:
    """A file, which need not be there yet."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def name(self) -> str:
        return str(self._path)

    @contextmanager
    def origin(self) -> Generator[SqliteOrigin]:
        path = self._path
        if not path.exists():
            raise NotFound(f"there is no memory at {path}; nothing was moved")
        if not os.access(path, os.W_OK):
            raise Unavailable(
                f"{path} may not be written by this user, so others cannot be kept out; move a copy"
            )
        with own_errors(path), closing(_only_reader(path)) as connection:
            check_ours(connection, path)
            check_version("sqlite", user_version(connection), self.name)
            yield SqliteOrigin(connection)

    @contextmanager
    def destination(self) -> Generator[SqliteDestination]:
        """Without a commit it leaves no file that was not there."""
        self.look()
        leave = not make(self._path)
        try:
            with own_errors(self._path), alone(self._path) as connection:
                yield self._emptied(connection)
                leave = leave or not connection.in_transaction
        finally:
            if not leave:
                self._remove()

    def look(self) -> None:
        path = self._path
        if path.is_dir():
            raise NotOurs(f"{path} is a folder; name a file in it")
        if not path.exists() or not path.stat().st_size:
            return
        with own_errors(path), closing(_only_reader(path)) as connection:
            check_ours(connection, path)
            version = user_version(connection)
            outstanding("sqlite", version)
            if version:
                refuse_unless_empty(SqliteSession(connection), self.name)

    def _emptied(self, connection: sqlite3.Connection) -> SqliteDestination:
        migrate(connection)
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("BEGIN EXCLUSIVE")
        destination = SqliteDestination(connection)
        refuse_unless_empty(destination.session, self.name)
        for table in OF_EVERY_SERVER:
            destination.session.run(f"DELETE FROM {table}")
        return destination

    def _remove(self) -> None:
        for suffix in COMPANIONS:
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)


def _only_reader(path: Path) -> sqlite3.Connection:
    address = f"{path.resolve().as_uri()}?mode=rw"
    connection = sqlite3.connect(address, uri=True, isolation_level=None, timeout=0)
    try:
        connection.row_factory = dict_row
        connection.execute("PRAGMA query_only = ON")
        # Before anything is read: only then does it mean that nobody else may be there.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("BEGIN")
        user_version(connection)
    except sqlite3.Error as error:
        connection.close()
        if is_busy(error):
            raise Busy(f"{path} is open in another process; stop its server first") from error
        raise
    return connection
