"""The SQLite engine: WAL, one writer thread with group commit, a pool of readers."""

import contextlib
import queue
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

from .contract import Busy, Internal, StoreError, Unavailable
from .engine import Row
from .migrations import outstanding
from .sqlite_text import SqliteText
from .sqlite_vectors import SqliteVectors

Result = TypeVar("Result")

APPLICATION_ID = 0x4D42_7264  # "MBrd": tells our files from other programs' databases
BATCH = 256
"""Writes that commit together at most: bounds how long the first of them waits for the last."""
OPEN_PATIENCE_SECONDS = 30.0
"""Opening waits longer than a write: another process may be migrating the schema."""
WAL_KEPT_BYTES = 64 * 1024 * 1024
READERS_KEPT = 8


class NotOurs(Exception):
    """The file is a database of something else, or no database at all."""


def translate(error: sqlite3.Error) -> StoreError:
    """The one door through which SQLite's errors leave, as the contract's."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return Busy("the database is in use by another process; nothing was written, try again")
    if code == sqlite3.SQLITE_FULL:
        return Unavailable("the disk is full; nothing was written, free some space and try again")
    if code == sqlite3.SQLITE_READONLY:
        return Unavailable("the database is read-only; nothing was written")
    if code == sqlite3.SQLITE_IOERR:
        return Unavailable("the disk reported an error; nothing was written")
    if code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
        return Internal("the database file is damaged; restore it from a backup")
    return Internal("the store failed; its log says why")


def _is_busy(error: sqlite3.OperationalError) -> bool:
    return error.sqlite_errorcode & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def _dict_row(cursor: sqlite3.Cursor, values: tuple[Any, ...]) -> Row:
    return {column[0]: value for column, value in zip(cursor.description, values, strict=True)}


class SqliteSession:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def all(self, sql: str, /, **parameters: object) -> list[Row]:
        return self.connection.execute(sql, parameters).fetchall()

    def one(self, sql: str, /, **parameters: object) -> Row | None:
        return cast("Row | None", self.connection.execute(sql, parameters).fetchone())

    def run(self, sql: str, /, **parameters: object) -> int:
        return self.connection.execute(sql, parameters).rowcount


def connect(path: Path, patience_seconds: float = 5.0) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=patience_seconds, isolation_level=None, check_same_thread=False
    )
    connection.row_factory = _dict_row
    connection.execute("PRAGMA foreign_keys = ON")
    # FULL: an answered write survives power loss; group commit pays for it (WAL alone would
    # lose the last commits).
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA journal_size_limit = {WAL_KEPT_BYTES}")
    return connection


@dataclass
class _Job:
    run: Callable[[SqliteSession], Any]
    answer: Future[Any]
    deadline: float


class Writer:
    """One thread, one connection. Writes that wait together are committed together."""

    def __init__(self, path: Path, patience_seconds: float) -> None:
        self._connection = connect(path, patience_seconds=0)
        self._session = SqliteSession(self._connection)
        self._patience = patience_seconds
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._closing = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="sqlite-writer", daemon=True)
        self._thread.start()

    def submit(self, run: Callable[[SqliteSession], Any]) -> Future[Any]:
        job = _Job(run, Future(), time.monotonic() + self._patience)
        with self._closing:
            if self._closed:
                raise Unavailable("the store is closing; nothing was written, try again")
            self._queue.put(job)
        return job.answer

    def close(self) -> None:
        with self._closing:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        self._thread.join()

    def _serve(self) -> None:
        while (job := self._queue.get()) is not None:
            self._commit_together([job])
        self._connection.close()

    def _commit_together(self, jobs: list[_Job]) -> None:
        try:
            jobs = self._lock(jobs)
            if not jobs:
                return
            self._drain(jobs)
            outcomes = [self._attempt(job) for job in jobs]
            self._connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - whatever it is belongs to the callers
            self._roll_back()
            for job in jobs:
                job.answer.set_exception(error)
            return
        for job, (result, failure) in zip(jobs, outcomes, strict=True):
            if failure is None:
                job.answer.set_result(result)
            else:
                job.answer.set_exception(failure)

    def _lock(self, jobs: list[_Job]) -> list[_Job]:
        """Begins a transaction; returns those still waiting for it, none of them overdue.

        Its own short, random naps instead of SQLite's busy handler, whose naps grow to 100 ms
        and so starve whoever has waited longest.
        """
        while jobs:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if not _is_busy(error):
                    raise
                jobs = self._give_up_overdue(jobs, error)
                self._drain(jobs)
                time.sleep(random.uniform(0.0005, 0.003))  # noqa: S311 - jitter, not a secret
            else:
                return jobs
        return jobs

    def _give_up_overdue(self, jobs: list[_Job], error: sqlite3.Error) -> list[_Job]:
        now = time.monotonic()
        for job in jobs:
            if job.deadline <= now:
                job.answer.set_exception(error)
        return [job for job in jobs if job.deadline > now]

    def _drain(self, jobs: list[_Job]) -> None:
        while jobs and len(jobs) < BATCH:
            try:
                job = self._queue.get_nowait()
            except queue.Empty:
                return
            if job is None:
                self._queue.put(None)
                return
            jobs.append(job)

    def _attempt(self, job: _Job) -> tuple[Any, Exception | None]:
        self._connection.execute("SAVEPOINT attempt")
        try:
            result = job.run(self._session)
        except Exception as error:  # noqa: BLE001 - raised again where it was asked for
            # A full disk or a failed read ends the whole transaction, and then the batch.
            self._connection.execute("ROLLBACK TO attempt")
            self._connection.execute("RELEASE attempt")
            return None, error
        self._connection.execute("RELEASE attempt")
        return result, None

    def _roll_back(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")


class SqliteEngine:
    """One database file. Any number of processes may have it open at once."""

    name = "sqlite"

    def __init__(self, path: Path, busy_timeout_ms: int = 5000) -> None:
        """Creates or upgrades the file. Raises `NotOurs`, `SchemaTooNew`, `StoreError`."""
        self.path = path
        self._patience = busy_timeout_ms / 1000
        self._idle: list[sqlite3.Connection] = []
        self.text = SqliteText()
        self.vectors = SqliteVectors()
        try:
            self._schema = prepare(path)
            self._writer = Writer(path, self._patience)
        except sqlite3.Error as error:
            raise translate(error) from error

    @contextlib.contextmanager
    def read(self) -> Generator[SqliteSession]:
        try:
            connection = self._idle.pop() if self._idle else connect(self.path)
            try:
                connection.execute("BEGIN")
                yield SqliteSession(connection)
            finally:
                self._end_reading(connection)
        except sqlite3.Error as error:
            raise translate(error) from error

    def _end_reading(self, connection: sqlite3.Connection) -> None:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if len(self._idle) < READERS_KEPT:
            self._idle.append(connection)
        else:
            connection.close()

    def write(self, job: Callable[[SqliteSession], Result]) -> Result:
        try:
            return cast("Result", self._writer.submit(job).result())
        except sqlite3.Error as error:
            raise translate(error) from error

    def write_each(
        self, jobs: Sequence[Callable[[SqliteSession], Result]]
    ) -> list[Result | Exception]:
        answers = [self._writer.submit(job) for job in jobs]
        return [_settled(answer) for answer in answers]

    def lock_hold(self, seconds: float) -> float:
        connection = connect(self.path, self._patience)
        try:
            connection.execute("BEGIN IMMEDIATE")
            began = time.monotonic()
            time.sleep(seconds)
            connection.execute("ROLLBACK")
            return time.monotonic() - began
        except sqlite3.Error as error:
            raise translate(error) from error
        finally:
            connection.close()

    def size(self) -> int:
        files = (self.path, self.path.with_name(self.path.name + "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def schema_version(self) -> int:
        return self._schema

    def close(self) -> None:
        self._writer.close()
        while self._idle:
            self._idle.pop().close()


def _settled(answer: Future[Any]) -> Any:
    error = answer.exception()
    if isinstance(error, sqlite3.Error):
        return translate(error)
    return answer.result() if error is None else error


def prepare(path: Path) -> int:
    """Makes the file ready and returns its schema's version; one process migrates, others wait."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.closing(connect(path, OPEN_PATIENCE_SECONDS)) as connection:
        check_ours(connection, path)
        become_wal(connection)
        if outstanding("sqlite", user_version(connection)):
            migrate(connection)
        return user_version(connection)


def user_version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()["user_version"])


def check_ours(connection: sqlite3.Connection, path: Path) -> None:
    try:
        theirs = connection.execute("PRAGMA application_id").fetchone()["application_id"]
        tables = connection.execute("SELECT count(*) AS n FROM sqlite_schema").fetchone()["n"]
    except sqlite3.DatabaseError as error:
        if _code(error) != sqlite3.SQLITE_NOTADB:
            raise
        raise NotOurs(f"{path} is not a SQLite database; name another file") from error
    if tables and theirs != APPLICATION_ID:
        raise NotOurs(f"{path} is a database of another program; name another file")


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def become_wal(connection: sqlite3.Connection) -> None:
    # Two processes that open a new file at once both want this; the loser is told busy at once,
    # whatever its timeout.
    deadline = time.monotonic() + OPEN_PATIENCE_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def migrate(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        for migration in outstanding("sqlite", user_version(connection)):
            for statement in statements(migration.sql):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {migration.number}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def statements(script: str) -> Iterator[str]:
    """Cuts a script into statements. `executescript` would commit the transaction first."""
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""
