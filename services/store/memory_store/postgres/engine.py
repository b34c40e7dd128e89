"""The Postgres engine: a pool of connections, writes side by side, one lock a key."""

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import psycopg
from psycopg import errors
from psycopg.pq import TransactionStatus

from memory_store.contract import Busy, Unavailable
from memory_store.engine import Question, Row, Session
from memory_store.postgres.bell import Bell
from memory_store.postgres.connections import MOST, SCHEMA, Connections
from memory_store.postgres.errors import IN_THE_WAY, translate, translated
from memory_store.postgres.locks import begin_writing
from memory_store.postgres.schema import prepare
from memory_store.postgres.session import PostgresSession, Rows
from memory_store.postgres.text import PostgresText
from memory_store.postgres.vectors import PostgresVectors
from memory_store.watch import Watch

Result = TypeVar("Result")

ATTEMPTS = 5
"""How often a write is begun again that got into another one's way."""
LOOK_SECONDS = 0.5
"""How often one who waits looks without having been told to."""
WAIT_SECONDS = 5.0
"""How long a call waits for a connection."""
WRITERS = 64
"""Writes that nobody waits for on a thread of their own, and so wait on one of these."""
_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_UNDER_WAY = {TransactionStatus.INTRANS, TransactionStatus.INERROR}


class PostgresEngine:
    """One database. Any number of processes may have it open at once."""

    name = "postgres"

    def __init__(self, url: str, busy_timeout_ms: int = 5000) -> None:
        """Creates or upgrades the schema. Raises `SchemaTooNew`, `StoreError`."""
        connections = Connections(url, busy_timeout_ms)
        self._schema, vector = prepare(connections)
        self._turns = threading.BoundedSemaphore(MOST)
        self._closed = False
        self._patient = True
        self._locking: set[Rows] = set()
        self._watch = Watch(self._newest_event, LOOK_SECONDS)
        self.text = PostgresText()
        self.vectors = PostgresVectors()
        self._pool = connections.pool(vector, WAIT_SECONDS)
        self._bell = Bell(connections.connect, self._watch.commit)
        self._writers = ThreadPoolExecutor(WRITERS, "postgres-writer")

    @contextlib.contextmanager
    def read(self) -> Generator[PostgresSession]:
        with translated(), self._transaction(lambda: [_READ]) as session:
            yield session

    def one(self, sql: str, /, **parameters: object) -> Row | None:
        """In one round trip, where a transaction takes three."""
        alone = Question(sql, parameters)
        with translated(), self._transaction(list, [alone]) as session:
            return session.one(sql, **parameters)

    def write(
        self,
        job: Callable[[PostgresSession], Result],
        locks: Collection[str] | None = None,
        ahead: Sequence[Question] = (),
    ) -> Result:
        def all_of_it(session: PostgresSession) -> Result:
            with session.in_one_go():
                result = job(session)
                session.later("COMMIT")
            return result

        with translated():
            if locks is None:
                return self._write(all_of_it, None, ahead)
            return _again_if_in_the_way(lambda: self._write(all_of_it, locks, ahead))

    def write_soon(
        self,
        job: Callable[[PostgresSession], Result],
        locks: Collection[str] | None = None,
        ahead: Sequence[Question] = (),
    ) -> Future[Result]:
        return self._writers.submit(self.write, job, locks, ahead)

    def write_each(
        self,
        jobs: Sequence[Callable[[PostgresSession], Result]],
        locks: Sequence[Collection[str]],
        ahead: Sequence[Question] = (),
    ) -> list[Result | Exception]:
        def each(session: PostgresSession) -> list[Result | Exception]:
            answers = _together(session, jobs)
            if answers is None:
                answers = [_on_its_own(session, job) for job in jobs]
            session.later("COMMIT")
            return answers

        together = {lock for some in locks for lock in some}
        try:
            return _again_if_in_the_way(lambda: self._write(each, together, ahead))
        except psycopg.Error as error:
            return [translate(error)] * len(jobs)

    def last_settled_event(self, session: Session) -> int:
        row = session.one(
            "SELECT coalesce(max(id), 0) AS id FROM event"
            " WHERE id < event_floor(pg_snapshot_xmin(pg_current_snapshot()))"
        )
        return int(row["id"]) if row else 0

    def wait_for_writes(self, after_event: int, seconds: float) -> bool:
        return self._watch.wait(after_event, seconds)

    def lock_hold(self, seconds: float) -> float:
        with translated(), self._writing(None):
            began = time.monotonic()
            time.sleep(seconds)
            return time.monotonic() - began

    def size(self, session: Session) -> int:
        row = session.one(
            "SELECT sum(pg_total_relation_size(oid))::bigint AS bytes FROM pg_class"
            f" WHERE relnamespace = '{SCHEMA}'::regnamespace AND relkind = 'r'"
        )
        return int(row["bytes"]) if row else 0

    def free_space(self) -> int | None:
        return None

    def schema_version(self) -> int:
        return self._schema

    def stop_waiting(self, seconds: float) -> None:
        timer = threading.Timer(seconds, self._lose_patience)
        timer.daemon = True
        timer.start()

    def close(self) -> None:
        if self._closed:
            return
        self._writers.shutdown()
        self._closed = True
        for _ in range(MOST):
            self._turns.acquire()
        self._bell.close()
        self._pool.close()
        self._watch.commit()

    def _newest_event(self) -> int:
        with self.read() as session:
            return self.last_settled_event(session)

    def _lose_patience(self) -> None:
        self._patient = False
        for connection in list(self._locking):
            with contextlib.suppress(psycopg.Error):
                connection.cancel_safe()

    def _write(
        self,
        job: Callable[[PostgresSession], Result],
        locks: Collection[str] | None,
        ahead: Sequence[Question],
    ) -> Result:
        """Runs a job that ends with its commit."""
        try:
            with self._writing(locks, ahead) as session:
                return job(session)
        finally:
            # Also of what was undone: newer events may have waited for its end to be settled.
            self._bell.ring()

    def _writing(
        self, locks: Collection[str] | None, ahead: Sequence[Question] = ()
    ) -> contextlib.AbstractContextManager[PostgresSession]:
        return self._transaction(lambda: begin_writing(locks, patient=self._patient), ahead)

    @contextlib.contextmanager
    def _transaction(
        self, begin: Callable[[], list[str]], ahead: Sequence[Question] = ()
    ) -> Generator[PostgresSession]:
        with self._turn():
            session = self._begin(begin, ahead)
            try:
                yield session
            finally:
                self._put_back(session.connection)

    @contextlib.contextmanager
    def _turn(self) -> Generator[None]:
        if self._closed:
            raise Unavailable("the store is closed")
        if not self._turns.acquire(timeout=WAIT_SECONDS):
            raise Busy("the store has too much to do; nothing was written, try again")
        try:
            yield
        finally:
            self._turns.release()

    def _begin(self, begin: Callable[[], list[str]], ahead: Sequence[Question]) -> PostgresSession:
        """Begins on a connection that is alive: those that died in the pool are passed by."""
        while True:
            connection = self._pool.getconn()
            session = PostgresSession(connection)
            self._locking.add(connection)
            try:
                session.begin(begin(), ahead)
            except errors.QueryCanceled:
                self._put_back(connection)
                raise Busy("the store is closing; nothing was written, try again") from None
            except psycopg.Error:
                broken = connection.broken
                self._put_back(connection)
                if not broken:
                    raise
            else:
                return session
            finally:
                self._locking.discard(connection)

    def _put_back(self, connection: Rows) -> None:
        if connection.info.transaction_status in _UNDER_WAY:
            with contextlib.suppress(psycopg.Error):
                connection.execute("ROLLBACK")
        self._pool.putconn(connection)


def _again_if_in_the_way(attempt: Callable[[], Result]) -> Result:
    for _ in range(ATTEMPTS - 1):
        with contextlib.suppress(*IN_THE_WAY):
            return attempt()
    return attempt()


def _together(
    session: PostgresSession, jobs: Sequence[Callable[[PostgresSession], Any]]
) -> list[Any] | None:
    """Returns what each job returned, None if one of them raised something; all is undone then."""
    try:
        with session.connection.transaction(), session.in_one_go():
            return [job(session) for job in jobs]
    except IN_THE_WAY:
        raise
    except Exception:  # whichever of them it is: the others are not to suffer from it
        if session.connection.broken:
            raise
        session.forget_answers()
        return None


def _on_its_own(session: PostgresSession, job: Callable[[PostgresSession], Any]) -> Any:
    """Returns what the job returned or raised; what it did then is undone, others' is not."""
    try:
        with session.connection.transaction():
            return job(session)
    except IN_THE_WAY:
        raise
    except psycopg.Error as error:
        if session.connection.broken:
            raise
        return translate(error)
    except Exception as error:  # noqa: BLE001 - whatever it is belongs to the job
        return error
