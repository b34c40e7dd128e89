"""What only the SQLite engine promises: group commit, patience, many processes, an honest file."""

import contextlib
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from fakes import FakeEmbedder
from memory_store import upkeep
from memory_store.contract import (
    Busy,
    Caller,
    Conflict,
    Internal,
    NotFound,
    StoreError,
    Unavailable,
)
from memory_store.migrations import SchemaTooNew
from memory_store.sqlite import NotOurs, SqliteEngine
from memory_store.store import SqlStore
from store.holders import Hand, Meaning

ALICE = Caller(principal="token:alice", source_client="alice")
WAIT_SECONDS = 20


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory.db"


@pytest.fixture
def opening(path):
    """Opens stores on one file, as so many processes would."""
    with contextlib.ExitStack() as stack:

        def open_one(busy_timeout_ms=5000, **options):
            store = SqlStore(SqliteEngine(path, busy_timeout_ms), **options)
            stack.callback(store.close)
            return store

        yield open_one


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
        session.run("INSERT INTO fact (namespace, key, version) VALUES ('default', 'half', 1)")
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
    assert len(committed) == 2


HOLDS_THE_LOCK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
"""


@contextlib.contextmanager
def lock_held(path):
    """Another process holds the write lock; gives what makes it let go."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDS_THE_LOCK, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout.readline() == "held\n"
        yield lambda: holder.communicate("\n", timeout=WAIT_SECONDS)
        holder.communicate(timeout=WAIT_SECONDS)


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


FILES = {
    "text": b"Dear diary, this is not a database. " * 200,
    "short": b"hello",
    "garbage": bytes(range(256)) * 64,
    "header": b"SQLite format 3\0" + b"\xff" * 4080,
}


@pytest.mark.parametrize("content", FILES.values(), ids=FILES)
def test_a_file_that_is_no_database_is_refused_and_left_alone(path, content):
    path.write_bytes(content)
    with pytest.raises(NotOurs, match="is not a SQLite database; name another file"):
        SqliteEngine(path)

    assert path.read_bytes() == content
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_database_of_another_program_is_refused_and_left_alone(path):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE fact (theirs)")
        connection.commit()
    content = path.read_bytes()
    with pytest.raises(NotOurs, match="database of another program; name another file"):
        SqliteEngine(path)

    assert path.read_bytes() == content


def test_a_newer_schema_is_refused_with_what_to_do(opening, path):
    opening().close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 999")
    with pytest.raises(SchemaTooNew, match=r"999.*newer version"):
        SqliteEngine(path)


def test_an_empty_file_and_missing_folders_are_no_hindrance(tmp_path):
    empty = tmp_path / "empty.db"
    empty.touch()
    for path in (empty, tmp_path / "a" / "b" / "new.db"):
        store = SqlStore(SqliteEngine(path))
        assert Hand(store, ALICE).set("k").version == 1
        store.close()


def test_a_file_that_cannot_be_opened_is_a_sentence(tmp_path):
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file" / "memory.db"):
        with pytest.raises(StoreError, match="cannot be opened") as error:
            SqliteEngine(path)
        assert str(tmp_path) not in error.value.message


OPENS = """
import sys
from pathlib import Path
from memory_store.contract import Caller, FactWrite
from memory_store.sqlite import SqliteEngine
from memory_store.store import SqlStore
print("ready", flush=True)
sys.stdin.readline()
store = SqlStore(SqliteEngine(Path(sys.argv[1])))
store.fact_set(Caller(principal="p", source_client="c"), FactWrite(key=sys.argv[2], value="v"))
store.close()
"""


def test_processes_that_open_a_new_file_at_once_all_succeed(opening, path):
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", OPENS, str(path), f"k{number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(8)
    ]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    errors = [process.communicate(timeout=WAIT_SECONDS)[1] for process in processes]

    assert errors == [""] * 8
    assert Hand(opening(), ALICE).keys() == [f"k{number}" for number in range(8)]


def test_a_file_that_another_process_has_just_made_is_no_stranger(path, monkeypatch):
    """The other one commits the schema between two looks at the file."""
    looks, others = [], []

    class Interrupted(sqlite3.Connection):
        def execute(self, sql, *arguments):
            if "application_id" in sql or "sqlite_schema" in sql:
                looks.append(sql)
                if len(looks) == 2:
                    others.append(SqliteEngine(path))
            return super().execute(sql, *arguments)

    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Interrupted))
    SqliteEngine(path).close()
    others[0].close()


def test_what_another_process_writes_is_found_at_once(opening):
    here, there = Hand(opening(), ALICE), Hand(opening(), ALICE)
    mine, theirs = Meaning(here.store, FakeEmbedder()), Meaning(there.store, FakeEmbedder())
    asked = mine.query("zebra")
    here.set("first", "zebra horse")
    mine.catch_up()
    assert here.found(**asked) == ["first"]

    there.set("second", "zebra")
    theirs.catch_up()
    assert here.found("zebra") == here.found(**asked) == ["second", "first"]
    there.set("first", "nothing of it")
    theirs.catch_up()
    assert here.found(**asked, min_score=0.1) == ["second"]
    there.delete("second")
    assert here.found(**asked, min_score=0.1) == here.found("zebra") == []
    other = Meaning(there.store, FakeEmbedder(name="other"))
    there.set("third", "zebra")
    other.catch_up()
    assert here.search(**asked).mode == "lexical"
    assert here.found(**other.query("zebra"), mode="semantic")[0] == "third"


def test_an_index_that_lags_behind_the_log_reads_the_table_anew(opening, monkeypatch, clock):
    monkeypatch.setattr(upkeep, "LOG_KEPT", 10)
    here, there = Hand(opening(clock=clock), ALICE), Hand(opening(clock=clock), ALICE)
    theirs = Meaning(there.store, FakeEmbedder())
    here.set("old", "zebra")
    theirs.catch_up()
    asked = theirs.query("zebra")
    assert here.found(**asked, mode="semantic") == ["old"]
    there.delete("old")
    for number in range(50):
        there.set(f"k{number}", "zebra" if number == 0 else f"word{number}")
    theirs.catch_up()
    upkeep.sweep(there.store.engine, clock())

    with there.store.engine.read() as session:
        assert session.one("SELECT count(*) AS n FROM vector_log")["n"] == 10
    assert here.found(**asked, mode="semantic", min_score=0.1) == ["k0"]
    assert len(here.found(**asked, mode="semantic", limit=100)) == 50


def test_the_upkeep_removes_what_expired_with_its_event(opening, clock):
    alice = Hand(opening(clock=clock), ALICE)
    for start in range(0, 600, 100):
        writes = [alice.write(f"k{number}", ttl_seconds=1) for number in range(start, start + 100)]
        alice.store.fact_set_many(ALICE, writes)
    alice.set("stays", idempotency_key="once")
    engine = alice.store.engine
    assert upkeep.sweep(engine, clock()) == 0
    clock.advance(24 * 3600)

    assert upkeep.sweep(engine, clock()) == 600
    assert upkeep.sweep(engine, clock()) == 0
    kinds = [event.kind for event in alice.events()]
    assert (kinds.count("expire"), kinds.count("set")) == (600, 601)
    event = alice.events("k7")[0]
    assert (event.source_client, event.self_reported) == ("store", False)
    with engine.read() as session:
        assert session.one("SELECT count(*) AS n FROM fact")["n"] == 1
        assert session.one("SELECT count(*) AS n FROM idempotency")["n"] == 0


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


def test_a_damaged_file_is_said_without_naming_it(opening, path):
    alice = Hand(opening(), ALICE)
    fill(alice, 20)
    alice.store.close()
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xaa" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(Internal, match="damaged; restore it from a backup") as error:
        SqliteEngine(path)

    assert str(path) not in error.value.message


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


def test_conflicts_between_processes_are_conflicts(opening):
    here, there = Hand(opening(), ALICE), Hand(opening(), ALICE)
    here.set("k", "1")
    there.set("k", "2", expected_version=1)
    with pytest.raises(Conflict):
        here.set("k", "3", expected_version=1)

    assert there.get("k") == here.get("k")
