"""The database file: whose it is, who makes it, and who else writes to it."""

import contextlib
import multiprocessing
import os
import sqlite3
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import pytest

from fakes import FakeEmbedder
from memory_store import upkeep
from memory_store.contract import Caller, Conflict, Internal, StoreError, Unavailable
from memory_store.migrations import SchemaTooNew
from memory_store.sqlite import NotOurs, SqliteEngine
from memory_store.store import SqlStore
from store.holders import Hand, Meaning

ALICE = Caller(principal="token:alice", source_client="alice")
WAIT_SECONDS = 20
NOBODY = 65534


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
    with pytest.raises(StoreError, match="cannot be opened") as error:
        SqliteEngine(tmp_path / "file" / "memory.db")
    assert str(tmp_path) not in error.value.message


def said_on_opening(path, user, said):
    if os.geteuid() == 0:
        os.setuid(user)
    try:
        SqliteEngine(path)
    except StoreError as error:
        said.put(error.message)
    else:
        said.put("")


@pytest.mark.parametrize("mode", [0o555, 0o500])
@pytest.mark.parametrize("place", ["memory.db", "new/memory.db"])
def test_a_folder_that_belongs_to_another_is_named_with_both_users(place, mode):
    with tempfile.TemporaryDirectory(dir="/tmp") as name:  # where any user gets to
        folder = Path(name)
        folder.chmod(mode)
        # Root may write anywhere, so somebody else must try; a fork needs no Python of his own.
        processes = multiprocessing.get_context("fork")
        said = processes.SimpleQueue()
        user = NOBODY if os.geteuid() == 0 else os.geteuid()
        process = processes.Process(target=said_on_opening, args=(folder / place, user, said))
        process.start()
        message = said.get()
        process.join(20)
    assert f"{folder}, which belongs to user {os.geteuid()}" in message
    assert f"by user {user}, as whom this runs; change its owner (chown -R {user})" in message


def test_a_folder_is_refused_with_what_to_do(tmp_path):
    with pytest.raises(NotOurs, match="is a folder; name a file in it"):
        SqliteEngine(tmp_path)


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


def test_a_damaged_file_is_said_without_naming_it(opening, path):
    alice = Hand(opening(), ALICE)
    for number in range(20):
        alice.set(f"k{number}", "word " * 3000)
    alice.store.close()
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xaa" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(Internal, match="damaged; restore it from a backup") as error:
        SqliteEngine(path)

    assert str(path) not in error.value.message


def remove(path):
    path.unlink()


def replace(path):
    other = path.with_name("other.db")
    SqliteEngine(other).close()
    other.replace(path)


@pytest.mark.parametrize("lose", [remove, replace])
def test_a_file_that_is_lost_while_open_is_said_and_nothing_is_acknowledged(lose, opening, path):
    alice = Hand(opening(log_reads=False), ALICE)
    alice.set("k", "1")
    lose(path)
    there = path.read_bytes() if path.exists() else None
    with pytest.raises(Unavailable, match=r"removed or replaced.*started again"):
        alice.set("k", "2")
    with pytest.raises(Unavailable, match="removed or replaced"):
        alice.get("k")
    (outcome,) = alice.store.fact_set_many(ALICE, [alice.write("k", "3")])

    assert outcome.problem.code == "unavailable"
    assert (path.read_bytes() if path.exists() else None) == there


def test_a_file_that_comes_back_goes_on_where_it_was(opening, path):
    alice = Hand(opening(), ALICE)
    alice.set("k", "1")
    aside = path.rename(path.with_name("aside.db"))
    with pytest.raises(Unavailable):
        alice.set("k", "2")
    aside.rename(path)

    assert alice.get("k").value == "1"
    assert alice.set("k", "3").version == 2


def test_conflicts_between_processes_are_conflicts(opening):
    here, there = Hand(opening(), ALICE), Hand(opening(), ALICE)
    here.set("k", "1")
    there.set("k", "2", expected_version=1)
    with pytest.raises(Conflict):
        here.set("k", "3", expected_version=1)

    assert there.get("k") == here.get("k")
