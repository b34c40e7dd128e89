"""The one thread that writes."""

import contextlib
import math
import queue
import random
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from memory_store.contract import Unavailable
from memory_store.sqlite.connection import (
    OPEN_PATIENCE_SECONDS,
    SqliteSession,
    connect,
    is_busy,
)
from memory_store.sqlite.errors import translate
from memory_store.sqlite.file import OpenedFile

BATCH = 256
"""Writes that commit together at most: bounds how long the first of them waits for the last."""


@dataclass
class _Job:
    run: Callable[[SqliteSession], Any]
    deadline: float
    repeatable: bool
    answer: Future[Any] = field(default_factory=Future[Any])
    result: Any = None
    failure: Exception | None = None

    def settle(self) -> None:
        if self.failure is None:
            self.answer.set_result(self.result)
        elif isinstance(self.failure, sqlite3.Error):
            error = translate(self.failure)
            error.__cause__ = self.failure
            self.answer.set_exception(error)
        else:
            self.answer.set_exception(self.failure)


class Writer:
    """One thread, one connection. Writes that wait together are committed together."""

    def __init__(
        self, file: OpenedFile, patience_seconds: float, committed: Callable[[], None]
    ) -> None:
        self._file = file
        self._connection = connect(file.path, OPEN_PATIENCE_SECONDS)
        # Now that it is open, waiting for the lock is this class's own affair.
        self._connection.execute("PRAGMA busy_timeout = 0")
        # What it takes to undo an attempt is kept; in a file that would double what is written.
        self._connection.execute("PRAGMA temp_store = MEMORY")
        self._session = SqliteSession(self._connection)
        self._patience = patience_seconds
        self._committed = committed
        self._latest = math.inf
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._closing = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="sqlite-writer", daemon=True)
        self._thread.start()

    def submit(self, run: Callable[[SqliteSession], Any], *, repeatable: bool) -> Future[Any]:
        """`repeatable`: it may be undone and run again from the start."""
        job = _Job(run, time.monotonic() + self._patience, repeatable)
        job.answer.set_running_or_notify_cancel()  # it is done even if nobody waits for it any more
        with self._closing:
            if self._closed:
                raise Unavailable("the store is closing; nothing was written, try again")
            self._queue.put(job)
        return job.answer

    def stop_waiting(self, seconds: float) -> None:
        self._latest = min(self._latest, time.monotonic() + seconds)

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
            self._file.check()
            self._drain(jobs)
            self._run(jobs)
            self._connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - whatever it is belongs to the callers
            self._roll_back()
            for job in jobs:
                job.failure = error
        else:
            self._committed()
        for job in jobs:
            job.settle()

    def _lock(self, jobs: list[_Job]) -> list[_Job]:
        """Begins a transaction; returns those still waiting for it, none of them overdue.

        Its own short, random naps instead of SQLite's busy handler, whose naps grow to 100 ms
        and so starve whoever has waited longest.
        """
        while jobs:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
            except sqlite3.Error as error:
                jobs = self._give_up(jobs, error)
                self._drain(jobs)
                time.sleep(random.uniform(0.0005, 0.003))  # noqa: S311 - jitter, not a secret
            else:
                return jobs
        return jobs

    def _give_up(self, jobs: list[_Job], error: sqlite3.Error) -> list[_Job]:
        """Tells those that are overdue, or all where waiting cannot help; returns the others."""
        now = time.monotonic() if is_busy(error) else math.inf
        latest = self._latest  # looked at once: it may be moved meanwhile
        for job in jobs:
            if min(job.deadline, latest) <= now:
                job.failure = error
                job.settle()
        return [job for job in jobs if min(job.deadline, latest) > now]

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

    def _run(self, jobs: list[_Job]) -> None:
        """All at one go, and each on its own only where one fails: that costs a quarter more."""
        if len(jobs) == 1:
            jobs[0].result = jobs[0].run(self._session)
        elif not all(job.repeatable for job in jobs) or self._attempt(jobs) is not None:
            for job in jobs:
                job.failure = self._attempt([job])

    def _attempt(self, jobs: list[_Job]) -> Exception | None:
        """Returns why one of the jobs failed; nothing of them is kept then."""
        self._connection.execute("SAVEPOINT attempt")
        try:
            for job in jobs:
                job.result = job.run(self._session)
        except Exception as error:
            if not self._connection.in_transaction:
                raise  # a full disk or a failed read ended the transaction, and so the batch
            self._connection.execute("ROLLBACK TO attempt")
            self._connection.execute("RELEASE attempt")
            return error
        self._connection.execute("RELEASE attempt")
        return None

    def _roll_back(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
