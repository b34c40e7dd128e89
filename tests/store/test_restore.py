"""A restore puts a whole backup in the place of the store, or changes nothing."""

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from memory_store.contract import Busy, Caller, Conflict, Invalid, NotFound
from memory_store.migrations import SchemaTooNew
from memory_store.operations.backup import backup
from memory_store.operations.check import check
from memory_store.operations.restore import restore
from memory_store.reindex import ensure_words
from memory_store.sqlite import NotOurs, SqliteEngine
from memory_store.store import SqlStore
from store.holders import Hand
from store.whole import silent

ALICE = Caller(principal="token:alice", source_client="alice")
KILLED = """
import os, sys
from pathlib import Path
from memory_store.contract import Caller, FactWrite
from memory_store.sqlite import SqliteEngine
from memory_store.store import SqlStore

store = SqlStore(SqliteEngine(Path(sys.argv[1])))
caller = Caller(principal="p", source_client="c")
for number in range(50):
    store.fact_set(caller, FactWrite(key=f"new/{number}", value="v"))
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def file(path, tmp_path):
    """A backup of a store with the key `old`."""
    with closing(SqlStore(SqliteEngine(path))) as store:
        Hand(store, ALICE).set("old")
        backup(path, tmp_path / "a.backup", silent())
    return tmp_path / "a.backup"


@pytest.fixture
def put_back(file, path, clock):
    return lambda: restore(file, path, clock, silent())


def keys(path):
    with closing(SqlStore(SqliteEngine(path))) as store:
        assert check(store.engine, silent()).findings == ()
        return Hand(store, ALICE).keys()


def write_and_be_killed(path):
    """Leaves a WAL that holds what the database file does not."""
    done = subprocess.run([sys.executable, "-c", KILLED, path], check=False)
    assert done.returncode == -9
    assert path.with_name(f"{path.name}-wal").stat().st_size


def test_the_backup_takes_the_place_and_what_was_there_is_kept(put_back, path):
    with closing(SqlStore(SqliteEngine(path))) as store:
        Hand(store, ALICE).set("new")
    report = put_back()

    assert keys(path) == ["old"]
    assert report.replaced == f"{path}.replaced-20260101T000000Z"
    assert keys(path.with_name("memory.db.replaced-20260101T000000Z")) == ["new", "old"]
    assert report.held["facts"] == 1


def test_what_was_put_aside_in_the_same_second_stays(put_back, path):
    assert [put_back().replaced for _ in range(3)] == [
        f"{path}.replaced-20260101T000000Z{number}" for number in ("", ".2", ".3")
    ]


def test_a_journal_of_the_old_content_is_not_applied_to_the_new(put_back, path):
    write_and_be_killed(path)
    put_back()

    assert keys(path) == ["old"]
    assert len(keys(path.with_name("memory.db.replaced-20260101T000000Z"))) == 51


def test_a_journal_without_its_database_is_set_aside(put_back, path):
    write_and_be_killed(path)
    path.unlink()
    report = put_back()

    assert keys(path) == ["old"]
    assert report.replaced is None
    assert path.with_name("memory.db.replaced-20260101T000000Z-wal").exists()


def test_nothing_is_restored_under_an_open_store(put_back, path):
    engine = SqliteEngine(path)
    ensure_words(engine)
    with closing(SqlStore(engine)) as store:
        with pytest.raises(Busy, match="open in another process; stop its server first"):
            put_back()
        Hand(store, ALICE).set("still here")
    assert keys(path) == ["old", "still here"]
    put_back()
    assert keys(path) == ["old"]


def test_nothing_need_be_there(file, tmp_path, clock):
    target = tmp_path / "new folder" / "memory.db"
    report = restore(file, target, clock, silent())

    assert report.replaced is None
    assert keys(target) == ["old"]


def test_a_damaged_store_is_set_aside(put_back, path):
    path.write_bytes(b"\xff" * 4096 + path.read_bytes()[4096:])
    damaged = path.read_bytes()
    report = put_back()

    assert keys(path) == ["old"]
    assert path.with_name("memory.db.replaced-20260101T000000Z").read_bytes() == damaged
    assert report.replaced is not None


def test_a_raw_copy_with_its_journal_is_a_backup_too(path, tmp_path, clock):
    write_and_be_killed(path)
    raw = tmp_path / "raw.db"
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", f"{raw}{suffix}")
    restore(raw, tmp_path / "other.db", clock, silent())

    assert len(keys(tmp_path / "other.db")) == 50


def truncated(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def torn(file):
    content = bytearray(file.read_bytes())
    content[4096 * 3 : 4096 * 12] = bytes(4096 * 9)
    file.write_bytes(content)


def orphaned(file):
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("DELETE FROM namespace")
        connection.commit()


def foreign(file):
    file.unlink()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE theirs (x)")


def newer(file):
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA user_version = 999")


SPOILED = {
    truncated: (Invalid, "is damaged"),
    torn: (Invalid, "is damaged"),
    orphaned: (Invalid, "is damaged: a row of"),
    foreign: (NotOurs, "database of another program"),
    newer: (SchemaTooNew, "newer version"),
    lambda file: file.write_bytes(b"hello" * 999): (NotOurs, "not a SQLite database"),
    lambda file: file.write_bytes(b""): (NotOurs, "is empty"),
}


@pytest.mark.parametrize("spoil", SPOILED, ids=lambda spoil: spoil.__name__)
def test_a_file_that_is_no_whole_backup_is_refused_and_the_store_left_alone(
    spoil, put_back, file, path
):
    before = path.read_bytes()
    spoil(file)
    error, sentence = SPOILED[spoil]
    with pytest.raises(error, match=sentence):
        put_back()

    assert path.read_bytes() == before
    assert keys(path) == ["old"]
    assert not list(path.parent.glob("*.replaced-*"))


def test_another_programs_database_is_not_replaced(put_back, path):
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    before = path.read_bytes()
    with pytest.raises(NotOurs, match="another program"):
        put_back()
    assert path.read_bytes() == before


def test_a_missing_backup_may_have_been_meant_as_a_key(path, tmp_path, clock):
    with pytest.raises(NotFound, match="to restore a fact, name its version too"):
        restore(tmp_path / "deploy", path, clock, silent())
    assert not path.exists()


@pytest.mark.usefixtures("file")
def test_the_memory_itself_is_not_a_backup_of_it(path, clock):
    with pytest.raises(Conflict, match="is the memory itself"):
        restore(path, path, clock, silent())
