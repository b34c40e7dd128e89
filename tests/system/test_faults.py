"""What goes wrong with a machine is said, does not end the service, and costs nothing written."""

import contextlib
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from bench.store_process import SECRET, store_process
from databases import opened_store
from fakes import FakeEmbedder
from lock_holder import lock_held
from memory_store.client import HttpStore
from memory_store.clock import moment
from memory_store.contract import Busy, Caller, Internal, StoreError, Unavailable
from memory_store.sqlite import SqliteEngine
from store.holders import Clock, Hand, Meaning
from system.disks import fill, mounted
from system.halves import halves

CALLER = Caller(principal="p", source_client="c")
PATIENCE_SECONDS = 5
DAY = 24 * 3600.0
WAIT_SECONDS = 20


def read_only(folder, *, on):
    option = "ro" if on else "rw"
    subprocess.run(["mount", "-o", f"remount,{option}", str(folder)], check=True)


@contextlib.contextmanager
def served(database):
    with store_process(database) as process:
        client = HttpStore(process.url, SECRET)
        yield Hand(client, CALLER)
        client.close()


@contextlib.contextmanager
def opened(database, **options):
    with contextlib.closing(opened_store(database, **options)) as store:
        yield Hand(store, CALLER)


def check_whole(database, written):
    with opened(database) as hand:
        assert {key: hand.get(key).value for key in written} == written
        assert list(halves(hand.store)) == []


def test_a_full_disk_is_said_and_what_was_acknowledged_stays(tmp_path):
    written = {}
    with mounted(tmp_path / "disk", "size=6m") as disk:
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(2_000_000))
        with served(disk / "memory.db") as hand:
            with pytest.raises(Unavailable, match="disk is full; nothing was written, free some"):
                fill(hand, written)
            assert written
            assert hand.keys(limit=1000) == sorted(written)
            assert hand.get("k0").value == written["k0"]
            ballast.unlink()
            hand.set("after", "it goes on")
        check_whole(disk / "memory.db", written | {"after": "it goes on"})


def test_a_disk_that_may_only_be_read_is_said_and_opens_once_it_may_be_written(tmp_path):
    with mounted(tmp_path / "disk", "size=6m") as disk:
        path = disk / "memory.db"
        with opened(path) as hand:
            hand.set("k", "1")
        read_only(disk, on=True)
        with pytest.raises(Unavailable, match=r"may be written|read-only") as refused:
            SqliteEngine(path)
        assert str(disk) not in refused.value.message
        read_only(disk, on=False)
        with opened(path) as hand:
            assert hand.set("k", "2").version == 2


def test_a_damaged_page_takes_only_what_was_on_it(tmp_path):
    path = tmp_path / "memory.db"
    values = {f"k{number:03}": f"number {number} " * 30 for number in range(300)}
    with opened(path) as hand:
        for key, value in values.items():
            hand.set(key, value)
    content = bytearray(path.read_bytes())
    page = content.index(values["k150"].encode()) // 4096 * 4096
    content[page : page + 4096] = bytes(b ^ 0x5A for b in content[page : page + 4096])
    path.write_bytes(content)
    with opened(path) as hand:
        got = {key: attempt(lambda key=key: hand.get(key).value) for key in values}
        damaged = {key for key, value in got.items() if value != values[key]}
        assert 0 < len(damaged) < 50
        for key in damaged:
            assert isinstance(got[key], Internal)
            assert got[key].message == "the database file is damaged; restore it from a backup"
            assert isinstance(attempt(lambda key=key: hand.set(key, "again")), Internal)
        assert hand.set("k000", "again").version == 2
        assert hand.set("new").version == 1


def attempt(call):
    try:
        return call()
    except StoreError as error:
        return error


@contextlib.contextmanager
def locked(database):
    """Somebody else keeps writes out, and reads not; gives what makes them let go."""
    if not isinstance(database, str):
        with lock_held(database) as let_go:
            yield let_go
        return
    with psycopg.connect(database) as connection:
        connection.execute("LOCK TABLE memory_bridge.fact IN SHARE MODE")
        yield connection.rollback


def test_who_waits_five_seconds_for_the_lock_is_told_and_who_waits_less_gets_it(database):
    with served(database) as hand, ThreadPoolExecutor(2) as threads:
        hand.set("k", "before")
        with locked(database) as let_go:
            began = time.monotonic()
            early = threads.submit(hand.set, "k", "early")
            time.sleep(PATIENCE_SECONDS / 3)  # the other arrives while the first is waiting
            late = threads.submit(hand.set, "k", "late")
            assert hand.get("k").value == "before"
            error = early.exception(WAIT_SECONDS)
            assert PATIENCE_SECONDS <= time.monotonic() - began < 2 * PATIENCE_SECONDS
            let_go()
        assert isinstance(error, Busy)
        assert error.retryable
        assert "in use by another process; nothing was written, try again" in error.message
        assert late.result(WAIT_SECONDS).version == 2
        assert hand.set("k", "after").version == 3
    check_whole(database, {"k": "after"})


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def hand(database, clock):
    with opened(database, clock=clock) as hand:
        yield hand


def test_a_clock_that_steps_back_leaves_versions_in_their_order(hand, clock):
    first = hand.set("k", "1")
    before = clock()
    clock.advance(-DAY)
    second = hand.set("k", "2")
    hand.delete("k")
    third = hand.set("k", "3")

    assert [first.version, second.version, third.version] == [1, 2, 3]
    assert second.updated_at >= first.updated_at
    assert hand.get("k", at=1).value == "1"
    assert hand.get("k", at=moment(before)).value == "3"
    assert hand.get("k", at=moment(clock() - 1)) is None
    assert [event.kind for event in hand.events("k")] == ["set", "delete", "set", "set"]
    clock.advance(2 * DAY)
    assert hand.get("k") == third
    assert hand.get("k", at=moment(clock())).value == "3"


def test_what_expires_lasts_its_seconds_by_the_clock_that_stepped_back(hand, clock):
    hand.set("k", "1", ttl_seconds=60)
    clock.advance(-DAY)
    assert hand.get("k").value == "1"
    hand.set("k", "2", ttl_seconds=60)
    clock.advance(59)
    assert hand.get("k").value == "2"
    clock.advance(1)

    assert hand.get("k") is None
    assert hand.keys() == hand.found("2") == []
    assert hand.set("k", "3").version == 3


def test_a_retried_write_is_the_same_after_the_clock_stepped_back(hand, clock):
    first = hand.set("k", "1", idempotency_key="once")
    clock.advance(-DAY)

    assert hand.set("k", "1", idempotency_key="once") == first


def test_a_lease_from_before_the_clock_stepped_back_does_not_last_for_ever(hand, clock):
    meaning = Meaning(hand.store, FakeEmbedder())
    hand.store.model_use(meaning.embedder.identity)
    hand.set("k", "zebra")
    (taken,) = hand.store.change_take("dead", meaning.model, lease_seconds=30)
    clock.advance(-365 * DAY)

    (again,) = hand.store.change_take("other", meaning.model, lease_seconds=30)
    assert again == taken
    assert hand.store.change_take("third", meaning.model) == []
    clock.advance(31)
    assert meaning.catch_up() == 1
