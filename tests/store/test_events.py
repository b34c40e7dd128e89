"""The audit trail: who did what, in which order, and what it was before."""

import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import pytest

from memory_store.clock import moment
from memory_store.contract import READ_KINDS, Caller, Conflict
from memory_store.events import Entry, ReadTrail
from store.holders import Hand

WAIT_SECONDS = 10


def test_events_are_newest_first_with_the_value_before_and_after(alice, clock):
    alice.set("k", "1")
    clock.advance(1)
    alice.set("k", "2")
    alice.delete("k")
    alice.restore("k", 1)
    events = alice.events("k")

    assert [(it.kind, it.version, it.value_before, it.value_after) for it in events] == [
        ("restore", 3, None, "1"),
        ("delete", 2, "2", None),
        ("set", 2, "1", "2"),
        ("set", 1, None, "1"),
    ]
    assert [it.at for it in events] == [moment(clock())] * 3 + [moment(clock() - 1000)]
    assert [it.id for it in events] == sorted((it.id for it in events), reverse=True)
    assert events[0].detail == {"restored_version": 1}


CALLERS = [
    Caller(principal="installation", source_client="says so itself"),
    Caller(
        principal="token:ci",
        source_client="ci",
        self_reported=False,
        claimed_client="somebody else",
        request_id="req-7 é",
    ),
]


@pytest.mark.parametrize("caller", CALLERS)
def test_everything_is_attributed(alice, store, caller, settle):
    alice.set("taken", "1")
    hand = Hand(store, caller)
    hand.set("k", "1")
    with pytest.raises(Conflict):
        hand.set("taken", "2", require_absent=True)
    hand.delete("k")
    hand.restore("k", 1)
    hand.get("k")
    hand.get("absent")
    store.fact_get_many(caller, "default", ["k", "taken"])
    hand.keys()
    hand.search("1")
    settle()
    events = hand.events(include_reads=True)[:-1]

    assert [event.kind for event in events] == [
        *["search", "list", "get", "get", "get", "get"],
        *["restore", "delete", "conflict", "set"],
    ]
    for event in events:
        assert event.principal == caller.principal
        assert event.source_client == caller.source_client
        assert event.self_reported is caller.self_reported
        assert event.claimed_client == caller.claimed_client
        assert event.request_id == caller.request_id
    fact = hand.get("k")
    assert (fact.source_client, fact.principal, fact.self_reported) == (
        caller.source_client,
        caller.principal,
        caller.self_reported,
    )


def test_reads_are_events_that_say_what_was_read(alice, settle):
    alice.set("k", "1", tags=("t",))
    alice.get("k")
    alice.get("absent")
    alice.keys(prefix="k", tags=["t"])
    alice.search("1", limit=3)
    settle()
    search, listing, absent, get, _ = alice.events(include_reads=True)

    assert (get.key, get.version, get.value_before, get.value_after) == ("k", 1, None, None)
    assert (absent.key, absent.version) == ("absent", None)
    assert listing.detail == {"prefix": "k", "tags": ["t"], "found": 1}
    assert (search.key, search.detail["query"], search.detail["mode"]) == (None, "1", "lexical")
    assert [it["key"] for it in search.detail["found"]] == ["k"]


def test_reads_are_left_out_unless_they_are_asked_for(alice, settle):
    alice.set("k")
    alice.get("k")
    alice.keys()
    settle()

    assert [event.kind for event in alice.events()] == ["set"]
    assert [event.kind for event in alice.events("k")] == ["set"]
    assert [event.kind for event in alice.events("k", include_reads=True)] == ["get", "set"]
    assert len(alice.events(include_reads=True)) == 3


def test_reads_appear_by_themselves(alice):
    alice.set("k")
    alice.get("k")
    deadline = time.monotonic() + WAIT_SECONDS
    while alice.events(include_reads=True)[0].kind != "get":
        assert time.monotonic() < deadline, "the read left no event"
        time.sleep(0.01)


def test_reads_of_many_threads_are_all_there(alice, settle):
    alice.set("k")
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: alice.get("k"), range(200)))
    settle()

    kinds = [event.kind for event in alice.events(include_reads=True)]
    assert kinds.count("get") == 200


def test_reads_never_wait_for_the_write_lock(alice, backing, store, settle):
    alice.set("k", "word", tags=("t",))
    held, release = threading.Event(), threading.Event()

    def hold(_session):
        held.set()
        assert release.wait(WAIT_SECONDS)

    with ThreadPoolExecutor(1) as threads:
        holding = threads.submit(backing.engine.write, hold)
        assert held.wait(WAIT_SECONDS)
        for _ in range(5):
            assert alice.get("k").value == "word"
            assert alice.found("word") == alice.keys(tags=["t"]) == ["k"]
            assert store.stats().facts == 1
        assert [event.kind for event in alice.events(include_reads=True)] == ["set"]
        release.set()
        holding.result()
    settle()

    kinds = [event.kind for event in alice.events(include_reads=True)]
    assert [kinds.count(kind) for kind in READ_KINDS] == [5, 5, 5]


def test_the_write_lock_can_be_held_to_show_that_writes_wait(alice, store):
    with ThreadPoolExecutor(1) as threads:
        holding = threads.submit(store.lock_hold, 0.3)
        while not holding.done():
            alice.set("k")

    assert 0.3 <= holding.result() < WAIT_SECONDS


def test_without_the_log_of_reads_only_writes_leave_events(opened, reach, caller):
    alice = Hand(reach(opened(log_reads=False)), caller)
    alice.set("k")
    alice.get("k")
    alice.keys()
    alice.search("k")
    threads = {thread.name for thread in threading.enumerate()}

    assert "read-trail" not in threads
    assert [event.kind for event in alice.events(include_reads=True)] == ["set"]


def test_reads_that_were_not_yet_written_are_written_on_closing(opened, reach, caller):
    first = opened()
    alice = Hand(reach(first), caller)
    alice.set("k")
    alice.get("k")
    first.close()
    again = Hand(reach(opened()), caller)

    assert [event.kind for event in again.events(include_reads=True)] == ["get", "set"]


def test_pages_stay_what_they_are_while_others_write(alice, bob, store):
    for number in range(25):
        alice.set(f"k{number}")
    seen, cursor = [], None
    while True:
        page = store.event_list("default", limit=4, cursor=cursor)
        seen += [event.key for event in page.events]
        bob.set("new")
        bob.delete("new")
        cursor = page.next_cursor
        if cursor is None:
            break

    assert seen == [f"k{number}" for number in reversed(range(25))]


def test_a_page_that_ends_the_list_has_no_cursor(alice, store):
    for number in range(6):
        alice.set(f"k{number}")

    assert store.event_list("default", limit=6).next_cursor is None
    first = store.event_list("default", limit=3)
    assert store.event_list("default", limit=3, cursor=first.next_cursor).next_cursor is None


def test_events_of_one_key_and_of_one_namespace_are_apart(store, caller):
    home, work = Hand(store, caller, "home"), Hand(store, caller, "work")
    home.set("a%")
    home.set("a_")
    work.set("a%")

    assert [event.key for event in home.events("a%")] == ["a%"]
    assert len(home.events()) == 2
    assert [event.namespace for event in work.events()] == ["work"]


def test_expiry_leaves_an_event_of_the_moment_it_happened(alice, clock):
    alice.set("k", "1", ttl_seconds=10)
    due = moment(clock() + 10_000)
    clock.advance(60)
    alice.set("k", "2")
    event = alice.events("k")[1]

    assert (event.kind, event.version, event.value_before, event.value_after) == (
        "expire",
        1,
        "1",
        None,
    )
    assert event.source_client == "alice"
    assert event.at == due or event.at == moment(clock())


def test_of_reads_that_cannot_be_written_the_oldest_are_forgotten(alice, backing):
    trail = ReadTrail(backing.engine)
    trail.KEPT, trail.AT_ONCE = 3, 2
    trail._entries = deque(maxlen=3)
    entries = [
        Entry(at=0, namespace="default", kind="get", caller=alice.caller, key=f"k{number}")
        for number in range(5)
    ]
    trail._put_back(entries[:3])
    trail._put_back(entries[3:])
    assert [entry.key for entry in trail._entries] == ["k0", "k1", "k2"]
    trail._entries.extend(entries[3:])
    assert [entry.key for entry in trail._entries] == ["k2", "k3", "k4"]
    trail.close()

    kept = [event.key for event in alice.events(include_reads=True) if event.kind == "get"]
    assert sorted(kept) == ["k2", "k3", "k4"]
