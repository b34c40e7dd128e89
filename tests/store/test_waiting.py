"""Whoever follows the trail hears of every write, and of none too early."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from memory_store.contract import Caller, Unavailable
from memory_store.events import Entry, append
from store.holders import Hand

ALICE = Caller(principal="token:alice", source_client="alice")
LONG = 30.0
SOON = 5.0
"""What stands for at once, on a machine that has other things to do."""


@pytest.fixture
def hand(backing):
    return Hand(backing, ALICE)


def last_event(store):
    with store.engine.read() as session:
        return store.engine.last_settled_event(session)


def test_before_the_first_event_the_last_one_is_none(backing):
    assert last_event(backing) == 0


def test_the_last_event_is_that_of_the_last_write(hand):
    hand.set("a")
    hand.set("b")
    assert last_event(hand.store) == hand.events()[0].id


def test_what_is_there_already_is_not_waited_for(hand):
    hand.set("a")
    began = time.monotonic()
    hand.store.engine.wait_for_writes(0, LONG)
    assert time.monotonic() - began < SOON


def test_waiting_ends_when_the_time_is_over(backing):
    began = time.monotonic()
    backing.engine.wait_for_writes(0, 0.1)
    assert 0.1 <= time.monotonic() - began < SOON


def test_waiting_ends_with_a_write(hand):
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(hand.store.engine.wait_for_writes, 0, LONG)
        began = time.monotonic()
        hand.set("a")
        waiting.result()
    assert time.monotonic() - began < SOON


def test_waiting_ends_with_the_write_of_another_process(opened):
    reader, writer = opened(), opened()
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(reader.engine.wait_for_writes, 0, LONG)
        began = time.monotonic()
        Hand(writer, ALICE).set("a")
        waiting.result()
    assert time.monotonic() - began < SOON
    assert last_event(reader) > 0


def test_a_write_that_left_no_trace_ends_no_waiting(backing):
    def fail(session):
        append(session, Entry(at=0, namespace="default", kind="set", caller=ALICE))
        raise RuntimeError

    with pytest.raises(RuntimeError):
        backing.engine.write(fail)
    began = time.monotonic()
    backing.engine.wait_for_writes(0, 0.1)
    assert time.monotonic() - began >= 0.1


def test_a_closed_engine_is_not_waited_for(opened):
    store = opened(log_reads=False)
    store.close()
    with pytest.raises(Unavailable):
        store.engine.wait_for_writes(0, LONG)


def test_a_follower_misses_nothing_of_many_writers(opened):
    """Ids that commit out of order must not be passed by."""
    stores = [opened(log_reads=False) for _ in range(3)]
    done = threading.Event()

    def follow():
        seen, last = [], 0
        while not done.is_set() or last_event(stores[0]) > last:
            stores[0].engine.wait_for_writes(last, 0.05)
            with stores[0].engine.read() as session:
                settled = stores[0].engine.last_settled_event(session)
                rows = session.all(
                    "SELECT id FROM event WHERE id > :last AND id <= :settled ORDER BY id",
                    last=last,
                    settled=settled,
                )
            seen += [row["id"] for row in rows]
            last = max(last, settled)
        return seen

    def write(number):
        hand = Hand(stores[number % 3], ALICE)
        for count in range(25):
            hand.set(f"{number}/{count}")

    with ThreadPoolExecutor(8) as threads:
        following = threads.submit(follow)
        list(threads.map(write, range(6)))
        done.set()
        seen = following.result()
    with stores[0].engine.read() as session:
        assert seen == [row["id"] for row in session.all("SELECT id FROM event ORDER BY id")]
