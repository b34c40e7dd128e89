"""What only the SQLite engine promises: group commit, patience, honest errors, a clean end."""

import contextlib
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from lock_holder import lock_held
from memory_store.contract import (
    Busy,
    Caller,
    Internal,
    NotFound,
    Unavailable,
)
from store.holders import Hand

ALICE = Caller(principal="token:alice", source_client="alice")
WAIT_SECONDS = 20


@pytest.fixture
def alice(opening):
    return Hand(opening(), ALICE)


def wait_for(condition):
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.002)


@contextlib.contextmanager
def held_up(store, arrivals):
    """Keeps the writer busy until as many writes have arrived behind it."""
    started, go_on = threading.Event(), threading.Event()

    def hold(_session):
        started.set()
        assert go_on.wait(WAIT_SECONDS)

    with ThreadPoolExecutor(1) as threads:
        holding = threads.submit(store.engine.write, hold)
        assert started.wait(WAIT_SECONDS)
        yield
        wait_for(lambda: store.engine._writer._queue.qsize() >= arrivals)
        go_on.set()
        holding.result()


@contextlib.contextmanager
def commits(store):
    """Counts the commits of the writer meanwhile."""
    seen = []
    connection = store.engine._writer._connection
    connection.set_trace_callback(lambda sql: seen.append(sql) if sql == "COMMIT" else None)
    yield seen
    connection.set_trace_callback(None)


def test_writes_that_arrive_together_commit_together(alice):
    with ThreadPoolExecutor(60) as threads, commits(alice.store) as committed:
        with held_up(alice.store, 60):
            facts = [threads.submit(alice.set, f"k{number}") for number in range(60)]
        assert {fact.result().version for fact in facts} == {1}

    assert len(alice.keys()) == 60
    assert len(committed) == 2


def test_many_writes_of_one_call_commit_together(alice):
    writes = [alice.write(f"k{number}") for number in range(100)]
    with commits(alice.store) as committed:
        alice.store.fact_set_many(ALICE, writes)

    assert len(committed) < 10


def test_a_failing_write_takes_no_other_of_its_batch_down(alice):
    def fail(session):
        session.run("INSERT INTO namespace (name) VALUES ('half')")
        raise RuntimeError("on purpose")

    threads = ThreadPoolExecutor(40)
    with commits(alice.store) as committed, threads, held_up(alice.store, 40):
        good = [threads.submit(alice.set, f"k{number}") for number in range(10)]
        bad = [threads.submit(alice.store.engine.write, fail) for _ in range(10)]
        absent = [threads.submit(alice.delete, f"absent{number}") for number in range(10)]
        once = [threads.submit(alice.set, "once", require_absent=True) for _ in range(10)]

    assert [type(job.exception()) for job in bad] == [RuntimeError] * 10
    assert [type(job.exception()) for job in absent] == [NotFound] * 10
    assert sorted(str(type(job.exception()).__name__) for job in once) == [
        *["Conflict"] * 9,
        "NoneType",
    ]
    assert [job.result().version for job in good] == [1] * 10
    assert alice.keys() == sorted(["once", *(f"k{number}" for number in range(10))])
    assert sum(event.kind == "conflict" for event in alice.events()) == 9
    with alice.store.engine.read() as session:
        assert session.one("SELECT 1 AS yes FROM namespace WHERE name = 'half'") is None
    assert len(committed) == 2


def test_a_batch_that_is_run_again_because_one_fails_leaves_each_once(alice):
    def fail(session):
        session.run("INSERT INTO namespace (name) VALUES ('half')")
        raise RuntimeError("on purpose")

    threads = ThreadPoolExecutor(40)
    with commits(alice.store) as committed, threads, held_up(alice.store, 40):
        before = [threads.submit(alice.set, f"a{number}") for number in range(15)]
        bad = [threads.submit(alice.store.engine.write, fail, ()) for _ in range(5)]
        absent = [threads.submit(alice.delete, f"absent{number}") for number in range(5)]
        after = [threads.submit(alice.set, f"b{number}") for number in range(15)]

    assert [type(job.exception()) for job in bad] == [RuntimeError] * 5
    assert [type(job.exception()) for job in absent] == [NotFound] * 5
    assert [job.result().version for job in before + after] == [1] * 30
    assert [event.kind for event in alice.events()] == ["set"] * 30
    with alice.store.engine.read() as session:
        assert session.one("SELECT 1 AS yes FROM namespace WHERE name = 'half'") is None
    assert len(committed) == 2


def test_what_must_not_be_run_again_is_not_when_another_fails(alice):
    runs = []

    def fail(_session):
        raise RuntimeError("on purpose")

    with ThreadPoolExecutor(4) as threads, held_up(alice.store, 4):
        for number in range(3):
            threads.submit(alice.store.engine.write, lambda _session, n=number: runs.append(n))
        failing = threads.submit(alice.store.engine.write, fail, ())

    assert isinstance(failing.exception(), RuntimeError)
    assert sorted(runs) == [0, 1, 2]


def test_a_write_that_nobody_waits_for_any_more_is_done_all_the_same(alice):
    with held_up(alice.store, 1):
        abandoned = alice.store.fact_set_soon(ALICE, alice.write("k"))
        assert not abandoned.cancel()

    assert abandoned.result().fact == alice.get("k")
    assert alice.set("k").version == 2


def test_with_no_patience_a_write_fails_at_once_and_may_be_tried_again(opening, path):
    alice = Hand(opening(busy_timeout_ms=0), ALICE)
    with lock_held(path) as let_go:
        began = time.monotonic()
        with pytest.raises(Busy, match="try again") as busy:
            alice.set("k")
        assert time.monotonic() - began < 1
        assert busy.value.retryable
        (outcome,) = alice.store.fact_set_many(ALICE, [alice.write("k")])
        assert (outcome.problem.code, outcome.problem.retryable) == ("busy", True)
        with pytest.raises(Busy):
            alice.store.lock_hold(0)
        assert alice.get("k") is None
        let_go()

    assert alice.set("k").version == 1
    assert len(alice.events()) == 1


def test_with_patience_a_write_waits_and_commits(opening, path):
    alice = Hand(opening(busy_timeout_ms=20_000), ALICE)
    with lock_held(path) as let_go, ThreadPoolExecutor(4) as threads:
        writes = [threads.submit(alice.set, f"k{number}") for number in range(4)]
        assert alice.keys() == []
        assert not any(write.done() for write in writes)
        let_go()
        assert [write.result().version for write in writes] == [1] * 4


def test_each_write_waits_for_as_long_as_it_may_and_no_longer(opening, path):
    alice = Hand(opening(busy_timeout_ms=300), ALICE)

    def attempt(key):
        began = time.monotonic()
        with pytest.raises(Busy):
            alice.set(key)
        return time.monotonic() - began

    with lock_held(path), ThreadPoolExecutor(2) as threads:
        first = threads.submit(attempt, "first")
        time.sleep(0.2)  # the second arrives while the first has been waiting for a while
        second = threads.submit(attempt, "second")
        assert 0.3 <= first.result() < 5
        assert 0.3 <= second.result() < 5


def fill(hand, values):
    for number in range(values):
        hand.set(f"filler{number}", f"{number} " * 4000)


def test_a_full_disk_is_said_and_got_over(alice):
    alice.set("k", "1")
    connection = alice.store.engine._writer._connection
    pages = connection.execute("PRAGMA page_count").fetchone()["page_count"]
    connection.execute(f"PRAGMA max_page_count = {pages + 3}")
    with pytest.raises(Unavailable, match="disk is full"):
        fill(alice, 100)
    with ThreadPoolExecutor(8) as threads, held_up(alice.store, 8):
        writes = [threads.submit(fill, alice, 1) for _ in range(8)]
    assert {type(write.exception()) for write in writes} == {Unavailable}
    assert alice.get("k").value == "1"
    connection.execute("PRAGMA max_page_count = 1000000")

    fill(alice, 3)
    assert alice.set("k", "2").version == 2
    with alice.store.engine.read() as session:
        assert [*session.one("PRAGMA integrity_check").values()] == ["ok"]


def test_a_read_only_database_is_said(alice):
    alice.set("k", "1")
    alice.store.engine._writer._connection.execute("PRAGMA query_only = ON")
    with pytest.raises(Unavailable, match="read-only; nothing was written"):
        alice.set("k", "2")

    assert alice.get("k").value == "1"


class Failing:
    """A connection whose disk fails once the write lock has been waited for."""

    def __init__(self, connection, before):
        self._connection = connection
        self._before = before

    def __getattr__(self, name):
        return getattr(self._connection, name)

    def execute(self, sql):
        if sql == "BEGIN IMMEDIATE" and (failure := self._before()):
            raise failure
        return self._connection.execute(sql)


def failure(code):
    error = sqlite3.OperationalError("made up")
    error.sqlite_errorcode = code
    return error


def test_a_disk_that_fails_while_writes_wait_is_told_to_each_of_them(alice):
    writer = alice.store.engine._writer
    disk = iter([failure(sqlite3.SQLITE_BUSY)] * 3 + [failure(sqlite3.SQLITE_IOERR)])
    arrived = threading.Event()

    def next_failure():
        assert arrived.wait(WAIT_SECONDS)
        return next(disk, None)

    writer._connection = Failing(writer._connection, next_failure)
    with ThreadPoolExecutor(8) as threads:
        writes = [threads.submit(alice.set, f"k{number}") for number in range(8)]
        wait_for(lambda: writer._queue.qsize() == 7)
        arrived.set()
        failures = [write.exception(WAIT_SECONDS) for write in writes]

    assert {type(error) for error in failures} == {Unavailable}
    assert alice.keys() == []
    assert alice.set("k").version == 1


def test_closing_keeps_what_was_accepted(opening):
    alice = Hand(opening(), ALICE)
    writer = alice.store.engine._writer
    with ThreadPoolExecutor(100) as threads:
        with held_up(alice.store, 100):
            writes = [threads.submit(alice.set, f"k{number}") for number in range(100)]
        alice.store.close()
        kept = {write.result().key for write in writes if write.exception() is None}
    assert not writer._thread.is_alive()

    assert set(Hand(opening(), ALICE).keys()) == kept
    assert len(kept) == 100


def test_a_store_that_is_told_to_wait_no_more_refuses_what_waits_and_writes_what_it_can(
    opening, path
):
    alice = Hand(opening(busy_timeout_ms=600_000), ALICE)
    with lock_held(path) as let_go, ThreadPoolExecutor(4) as threads:
        writes = [threads.submit(alice.set, f"k{number}") for number in range(4)]
        alice.store.stop_waiting()
        assert {type(write.exception(WAIT_SECONDS)) for write in writes} == {Busy}
        with pytest.raises(Busy):
            alice.set("later")
        let_go()

    assert alice.set("k").version == 1


def test_closing_does_not_wait_for_whoever_holds_the_lock(opening, path):
    alice = Hand(opening(busy_timeout_ms=600_000), ALICE)
    alice.set("k")
    alice.get("k")
    with lock_held(path), ThreadPoolExecutor(1) as threads:
        write = threads.submit(alice.set, "waits")
        began = time.monotonic()
        alice.store.close()
        assert time.monotonic() - began < 5
        assert isinstance(write.exception(WAIT_SECONDS), Busy | Unavailable)


def test_a_closed_store_says_so(opening):
    alice = Hand(opening(), ALICE)
    alice.set("k")
    alice.store.close()
    alice.store.close()

    for call in (lambda: alice.set("k"), lambda: alice.get("k"), alice.keys, alice.events):
        with pytest.raises(Unavailable):
            call()


def test_a_closed_store_leaves_one_file(opening, path):
    alice = Hand(opening(), ALICE)
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(lambda n: alice.set(f"k{n}") and alice.found("v"), range(50)))
    alice.store.close()

    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_writes_survive_power_loss(alice):
    connection = alice.store.engine._writer._connection

    assert connection.execute("PRAGMA journal_mode").fetchone() == {"journal_mode": "wal"}
    assert connection.execute("PRAGMA synchronous").fetchone() == {"synchronous": 2}


def test_an_error_of_the_database_leaks_nothing(alice, path, caplog):
    alice.set("k")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("ALTER TABLE fact_version RENAME TO elsewhere")
    for call in (lambda: alice.get("k"), lambda: alice.set("k"), lambda: alice.found("k")):
        with pytest.raises(Internal) as error:
            call()
        assert error.value.message == "the store failed; its log says why"
    assert "no such table" in caplog.text
