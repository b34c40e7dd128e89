"""A backup holds what was acknowledged before it began, whatever is written meanwhile."""

import itertools
import threading
from contextlib import closing

import pytest

from memory_store.contract import Caller, Conflict, Internal, NotFound
from memory_store.operations import backup as module
from memory_store.operations.backup import backup
from memory_store.operations.check import check
from memory_store.sqlite import NotOurs, SqliteEngine
from memory_store.store import SqlStore
from store.holders import Hand
from store.whole import silent

ALICE = Caller(principal="token:alice", source_client="alice")
WRITERS = 4
BEFORE = 300
WAIT_SECONDS = 30


class Storm:
    """Writers that never rest; `acknowledged` are the values of writes that were answered."""

    def __init__(self, store):
        self.acknowledged = []
        self._store = store
        self._enough = threading.Event()
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._write, args=(name,)) for name in range(WRITERS)
        ]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        assert self._enough.wait(WAIT_SECONDS)
        return self

    def __exit__(self, *_):
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _write(self, name):
        hand = Hand(self._store, ALICE)
        for number in itertools.count():
            if self._over.is_set():
                return
            fact = hand.set(f"{name}/{number % 50}", f"{name}x{number} " * 40)
            self.acknowledged.append((fact.key, fact.version, fact.value))
            if len(self.acknowledged) > BEFORE:
                self._enough.set()


def versions(path):
    with closing(SqlStore(SqliteEngine(path))) as store, store.engine.read() as session:
        rows = session.all("SELECT key, version, value FROM fact_version")
        return {tuple(row.values()) for row in rows}


def test_a_backup_in_a_write_storm_holds_all_that_was_acknowledged_before(opening, path, tmp_path):
    with Storm(opening()) as storm:
        for number in range(3):
            before = list(storm.acknowledged)
            backup(path, tmp_path / f"{number}.backup", silent())
            assert set(before) <= versions(tmp_path / f"{number}.backup")
    assert len(storm.acknowledged) > len(before)


def test_a_backup_of_a_storm_agrees_with_itself_and_is_one_file(opening, path, tmp_path):
    folder = tmp_path / "backups"
    folder.mkdir()
    with Storm(opening()):
        report = backup(path, folder / "a.backup", silent())
    assert [file.name for file in folder.iterdir()] == ["a.backup"]
    with closing(SqliteEngine(folder / "a.backup")) as engine:
        assert check(engine, silent()).findings == ()
        with engine.read() as session:
            counts = [
                session.one(f"SELECT count(*) AS n FROM {table}")["n"]
                for table in ("fact", "fact_version", "event")
            ]
    assert counts == [report.held[name] for name in ("facts", "versions", "events")]
    assert f"{report.held['facts']:,} facts" in report.sentences()[0]


def test_only_the_owner_may_read_a_backup(opening, path, tmp_path):
    Hand(opening(), ALICE).set("k")
    backup(path, tmp_path / "a.backup", silent())

    assert (tmp_path / "a.backup").stat().st_mode & 0o777 == 0o600


def test_what_is_there_already_is_replaced_only_when_asked(opening, path, tmp_path):
    Hand(opening(), ALICE).set("k")
    target = tmp_path / "a.backup"
    target.write_bytes(b"precious")
    with pytest.raises(Conflict, match=r"exists already.*--force"):
        backup(path, target, silent())
    assert target.read_bytes() == b"precious"

    backup(path, target, silent(), replace=True)
    assert versions(target) == {("k", 1, "v")}


def test_the_memory_itself_is_never_the_backup(opening, path, tmp_path):
    Hand(opening(), ALICE).set("k")
    link = tmp_path / "link.db"
    link.symlink_to(path)
    for target in (path, link):
        with pytest.raises(Conflict, match="is the memory itself"):
            backup(path, target, silent(), replace=True)


def test_a_name_beside_which_a_journal_lies_is_refused(opening, path, tmp_path):
    Hand(opening(), ALICE).set("k")
    (tmp_path / "a.backup-wal").write_bytes(b"of another database")
    with pytest.raises(Conflict, match=r"a\.backup-wal lies beside"):
        backup(path, tmp_path / "a.backup", silent(), replace=True)


def test_a_missing_memory_is_said_and_not_made(tmp_path):
    with pytest.raises(NotFound, match="there is no memory at"):
        backup(tmp_path / "memory.db", tmp_path / "a.backup", silent())
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_something_else_is_not_backed_up(path, tmp_path):
    path.write_bytes(b"Dear diary " * 500)
    with pytest.raises(NotOurs, match="not a SQLite database"):
        backup(path, tmp_path / "a.backup", silent())
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_a_copy_that_holds_less_is_not_kept(opening, path, tmp_path, monkeypatch):
    Hand(opening(), ALICE).set("k")

    def lossy(source, target, _step):
        source.backup(target)
        target.execute("DELETE FROM event")

    monkeypatch.setattr(module, "copy", lossy)
    with pytest.raises(Internal, match="nothing was kept"):
        backup(path, tmp_path / "a.backup", silent())
    assert not list(tmp_path.glob("*backup*"))
