"""Copies of a database file: page by page while others write, and looked through afterwards."""

import contextlib
import sqlite3
from collections.abc import Callable, Generator
from pathlib import Path

from memory_store.contract import Busy, Invalid
from memory_store.migrations import outstanding
from memory_store.sqlite.connection import code_of, connect, dict_row, is_busy
from memory_store.sqlite.errors import translate
from memory_store.sqlite.file import NotOurs, check_ours, user_version

PAGES_AT_ONCE = 1000
Step = Callable[[int, int], None]
"""Is told how many pages are done, and of how many."""

_UNREADABLE = {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT}
_TABLES = (
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
    r" AND name NOT LIKE 'fact\_words\_%' ESCAPE '\' AND name NOT LIKE 'sqlite\_%' ESCAPE '\'"
    " ORDER BY name"
)


@contextlib.contextmanager
def snapshot(path: Path) -> Generator[sqlite3.Connection]:
    """A connection that sees the file as it is now, whatever is written meanwhile."""
    with contextlib.closing(connect(path)) as connection:
        connection.execute("BEGIN")
        user_version(connection)
        yield connection


@contextlib.contextmanager
def reading(path: Path) -> Generator[sqlite3.Connection]:
    """A connection that changes nothing. Raises `NotOurs` where there is no database."""
    address = f"{path.resolve().as_uri()}?mode=ro"
    with contextlib.closing(sqlite3.connect(address, uri=True, isolation_level=None)) as connection:
        connection.row_factory = dict_row
        yield connection


@contextlib.contextmanager
def alone(path: Path) -> Generator[sqlite3.Connection]:
    """A connection besides which there is no other; the journal is in the file, not beside it.

    Raises `Busy` when another process has the file open, `NotOurs` for another program's.
    """
    with contextlib.closing(connect(path, patience_seconds=0)) as connection:
        check_ours(connection, path)
        try:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.execute("PRAGMA journal_mode = DELETE")
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            if is_busy(error):
                raise Busy(f"{path} is open in another process; stop its server first") from error
            raise
        yield connection


def copy(source: sqlite3.Connection, target: sqlite3.Connection, step: Step) -> None:
    """Makes `target` what `source` sees, in one transaction, and a file without a journal."""

    def progress(_status: int, remaining: int, total: int) -> None:
        step(total - remaining, total)

    source.backup(target, pages=PAGES_AT_ONCE, progress=progress)
    target.execute("PRAGMA journal_mode = DELETE")


def counts(connection: sqlite3.Connection) -> dict[str, int]:
    """Returns how many rows each table holds."""
    tables = [row["name"] for row in connection.execute(_TABLES)]
    return {
        table: int(connection.execute(f'SELECT count(*) AS n FROM "{table}"').fetchone()["n"])
        for table in tables
    }


def verify(connection: sqlite3.Connection, path: Path) -> dict[str, int]:
    """Returns the counts of a database of ours that is whole.

    Raises `NotOurs`, `SchemaTooNew`, and `Invalid` for one that is damaged.
    """
    try:
        check_ours(connection, path)
        version = user_version(connection)
        if not version:
            raise NotOurs(f"{path} is empty; name another file")
        outstanding("sqlite", version)
        _verify_pages(connection, path)
        return counts(connection)
    except sqlite3.DatabaseError as error:
        if code_of(error) == sqlite3.SQLITE_CORRUPT:
            raise Invalid(f"{path} is damaged: {error}") from error
        raise


def _verify_pages(connection: sqlite3.Connection, path: Path) -> None:
    faults = [row["integrity_check"] for row in connection.execute("PRAGMA integrity_check(3)")]
    if faults != ["ok"]:
        raise Invalid(f"{path} is damaged: {faults[0]}")
    if broken := connection.execute("PRAGMA foreign_key_check").fetchone():
        raise Invalid(f"{path} is damaged: a row of {broken['table']} belongs to nothing")


@contextlib.contextmanager
def own_errors(path: Path) -> Generator[None]:
    """Lets SQLite's errors about a file out as our own."""
    try:
        yield
    except sqlite3.Error as error:
        if code_of(error) == sqlite3.SQLITE_NOTADB:
            raise NotOurs(f"{path} is not a SQLite database; name another file") from error
        raise translate(error) from error


def is_unreadable(error: sqlite3.Error) -> bool:
    return code_of(error) in _UNREADABLE
