"""The SQLite engine: WAL, one writer thread with group commit, a pool of readers."""

import contextlib
import shutil
import sqlite3
import time
from collections.abc import Callable, Collection, Generator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar, cast

from memory_store.contract import Unavailable
from memory_store.engine import Question, Row, Session
from memory_store.sqlite.connection import SqliteSession, connect
from memory_store.sqlite.errors import translate
from memory_store.sqlite.file import OpenedFile, prepare, why_not
from memory_store.sqlite.text import SqliteText
from memory_store.sqlite.vectors import SqliteVectors
from memory_store.sqlite.writer import Writer
from memory_store.watch import Watch

Result = TypeVar("Result")

NO_FOLDER = "the database cannot be opened: its folder cannot be made"
READERS_KEPT = 8
LOOK_SECONDS = 0.025
"""How often one who waits looks for what other processes wrote: nobody announces it."""


class SqliteEngine:
    """One database file. Any number of processes may have it open at once."""

    name = "sqlite"

    def __init__(self, path: Path, busy_timeout_ms: int = 5000) -> None:
        """Creates or upgrades the file. Raises `NotOurs`, `SchemaTooNew`, `StoreError`."""
        self.path = path
        self._patience = busy_timeout_ms / 1000
        self._idle: list[sqlite3.Connection] = []
        self._closed = False
        self._watch = Watch(self._newest_event, LOOK_SECONDS)
        self.text = SqliteText()
        self.vectors = SqliteVectors()
        try:
            self._schema = prepare(path)
            self._file = OpenedFile(path)
            self._writer = Writer(self._file, self._patience, self._watch.commit)
        except sqlite3.Error as error:
            raise why_not(path) or translate(error) from error
        except OSError as error:
            raise why_not(path) or Unavailable(NO_FOLDER) from error

    @contextlib.contextmanager
    def read(self) -> Generator[SqliteSession]:
        try:
            connection = self._reader()
            try:
                connection.execute("BEGIN")
                yield SqliteSession(connection)
            finally:
                self._end_reading(connection)
        except sqlite3.Error as error:
            raise translate(error) from error

    def one(self, sql: str, /, **parameters: object) -> Row | None:
        with self.read() as session:
            return session.one(sql, **parameters)

    def _reader(self) -> sqlite3.Connection:
        if self._closed:
            raise Unavailable("the store is closed")
        self._file.check()
        try:
            return self._idle.pop()
        except IndexError:
            return connect(self.path)

    def _end_reading(self, connection: sqlite3.Connection) -> None:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if len(self._idle) < READERS_KEPT and not self._closed:
            self._idle.append(connection)
        else:
            connection.close()

    def write(
        self,
        job: Callable[[SqliteSession], Result],
        locks: Collection[str] | None = None,
        ahead: Sequence[Question] = (),
    ) -> Result:
        return self.write_soon(job, locks, ahead).result()

    def write_soon(
        self,
        job: Callable[[SqliteSession], Result],
        locks: Collection[str] | None = None,
        ahead: Sequence[Question] = (),
    ) -> Future[Result]:
        del ahead  # every write is alone, and nothing is far away
        return self._writer.submit(job, repeatable=locks is not None)

    def write_each(
        self,
        jobs: Sequence[Callable[[SqliteSession], Result]],
        locks: Sequence[Collection[str]],
        ahead: Sequence[Question] = (),
    ) -> list[Result | Exception]:
        answers = [
            self.write_soon(job, those, ahead) for job, those in zip(jobs, locks, strict=True)
        ]
        return [_settled(answer) for answer in answers]

    def last_settled_event(self, session: Session) -> int:
        # One writer at a time: ids are given in the order of the commits.
        row = session.one("SELECT coalesce(max(id), 0) AS id FROM event")
        return int(row["id"]) if row else 0

    def wait_for_writes(self, after_event: int, seconds: float) -> bool:
        return self._watch.wait(after_event, seconds)

    def _newest_event(self) -> int:
        with self.read() as session:
            return self.last_settled_event(session)

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

    def size(self, session: Session) -> int:
        del session
        files = (self.path, self.path.with_name(self.path.name + "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def free_space(self) -> int | None:
        return shutil.disk_usage(self.path.parent).free

    def schema_version(self) -> int:
        return self._schema

    def stop_waiting(self, seconds: float) -> None:
        self._writer.stop_waiting(seconds)

    def close(self) -> None:
        self._closed = True
        self._writer.close()
        while self._idle:
            self._idle.pop().close()


def _settled(answer: Future[Result]) -> Result | Exception:
    error = answer.exception()
    return answer.result() if error is None else cast("Exception", error)
