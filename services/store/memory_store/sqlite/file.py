"""The database file: whose it is, its journal, its schema."""

import contextlib
import logging
import os
import sqlite3
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from memory_store.contract import Unavailable
from memory_store.migrations import Migration, outstanding
from memory_store.sqlite.connection import OPEN_PATIENCE_SECONDS, code_of, connect, is_busy

logger = logging.getLogger(__name__)

APPLICATION_ID = 0x4D42_7264  # "MBrd": tells our files from other programs' databases


class NotOurs(Exception):
    """The file is a database of something else, or no database at all."""


class OpenedFile:
    """The file that is open. Another in its place is another memory, and none is none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._opened = path.stat()

    def check(self) -> None:
        """Raises `Unavailable` unless it is still what its name stands for."""
        try:
            if os.path.samestat(self.path.stat(), self._opened):
                return
        except OSError:
            pass
        raise Unavailable(
            "the database file was removed or replaced while it was in use;"
            " the store must be started again"
        )


def prepare(path: Path) -> int:
    """Makes the file ready and returns its schema's version; one process migrates, others wait.

    Raises `NotOurs`, `SchemaTooNew` and SQLite's errors.
    """
    if path.is_dir():
        raise NotOurs(f"{path} is a folder; name a file in it")
    make(path)
    try:
        with contextlib.closing(connect(path, OPEN_PATIENCE_SECONDS)) as connection:
            check_ours(connection, path)
            become_wal(connection)
            if outstanding("sqlite", user_version(connection)):
                migrate(connection)
            return user_version(connection)
    except sqlite3.DatabaseError as error:
        if code_of(error) != sqlite3.SQLITE_NOTADB:
            raise
        raise NotOurs(f"{path} is not a SQLite database; name another file") from error


def make(path: Path) -> bool:
    """Makes what is missing for its owner alone, and returns whether the file was.

    SQLite gives the journal the file's own mode.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        path.touch(mode=0o600, exist_ok=False)
    except FileExistsError:
        return False
    return True


def why_not(path: Path) -> Unavailable | None:
    """Returns what to do about a file that could not be opened because of who it belongs to.

    None if it may be written to, as far as that can be told, and where nobody may write.
    """
    if sys.platform == "win32":  # which knows neither owners by number nor this kind of mode
        return None
    folder = next(place for place in path.parents if os.access(place, os.F_OK))
    place = next((place for place in (folder, path) if not _may_write(place)), None)
    if place is None or os.statvfs(place).f_flag & os.ST_RDONLY:
        return None
    owner, user = place.stat().st_uid, os.geteuid()
    return Unavailable(
        f"the database cannot be opened: {place}, which belongs to user {owner}, may not be"
        f" written to by user {user}, as whom this runs; change its owner (chown -R {user}) or mode"
    )


def _may_write(place: Path) -> bool:
    """What is not there, or not to be seen, is no hindrance."""
    return not os.access(place, os.F_OK) or os.access(place, os.W_OK)


def user_version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()["user_version"])


def check_ours(connection: sqlite3.Connection, path: Path) -> None:
    # In this order: another process may make the file ours between the two looks.
    tables = connection.execute("SELECT count(*) AS n FROM sqlite_schema").fetchone()["n"]
    theirs = connection.execute("PRAGMA application_id").fetchone()["application_id"]
    if tables and theirs != APPLICATION_ID:
        raise NotOurs(f"{path} is a database of another program; name another file")


def become_wal(connection: sqlite3.Connection) -> None:
    # Two processes that open a new file at once both want this; the loser is told busy at once,
    # whatever its timeout.
    deadline = time.monotonic() + OPEN_PATIENCE_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def migrate(connection: sqlite3.Connection) -> None:
    # A migration may make a table anew, and dropping the old one would take all that refers to it.
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.execute("BEGIN IMMEDIATE")
    try:
        for migration in outstanding("sqlite", user_version(connection)):
            _apply(connection, migration)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _apply(connection: sqlite3.Connection, migration: Migration) -> None:
    try:
        for statement in statements(migration.sql):
            connection.execute(statement)
        if broken := connection.execute("PRAGMA foreign_key_check").fetchone():
            raise sqlite3.IntegrityError(f"a reference into nothing: {broken}")
        connection.execute(f"PRAGMA user_version = {migration.number}")
    except sqlite3.Error:
        logger.exception("%s failed; the database stays as it was", migration.name)
        raise


def statements(script: str) -> Iterator[str]:
    """Cuts a script into statements. `executescript` would commit the transaction first."""
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""
    if pending.strip():
        yield pending
