"""Following the trail: every event once, in order, as soon as it is there."""

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from memory_store.contract import Caller, Conflict, EventFeed, Invalid, TokenGrant, Unavailable
from store.holders import Hand

LONG = 30.0
SOON = 2.0
"""What stands for at once, on a machine that has other things to do."""
WAIT_SECONDS = 20
MAX_ID = 2**63 - 1


def follow(store, after, **options):
    """All events that are there, over as many feeds as it takes."""
    feed = store.event_follow(after, **options)
    events = [*feed.events]
    while feed.events:
        feed = store.event_follow(feed.after, **options)
        events += feed.events
    return events


def newest(store):
    return store.event_follow(None).after


def told(feed):
    return [(event.kind, event.key) for event in feed.events]


def test_before_the_first_event_following_begins_at_none(store):
    assert store.event_follow(None) == store.event_follow(0) == EventFeed(events=(), after=0)


def test_following_begins_behind_the_newest_event_without_waiting(alice, store):
    alice.set("before")
    began = time.monotonic()
    feed = store.event_follow(None, wait_seconds=LONG)
    assert time.monotonic() - began < SOON
    assert (feed.events, feed.after) == ((), alice.events()[0].id)
    alice.set("after")

    assert told(store.event_follow(feed.after)) == [("set", "after")]


def test_events_come_oldest_first_and_as_the_trail_has_them(alice, bob, store):
    alice.set("k", "1", tags=("t",))
    bob.set("k", "2")
    with pytest.raises(Conflict):
        bob.set("k", "3", expected_version=1)
    alice.delete("k")
    alice.restore("k", 1)
    store.namespace_rename(alice.caller, "default", "renamed")
    store.token_create(bob.caller, TokenGrant(name="ci", scopes=("read",)))
    feed = store.event_follow(0)

    assert feed.events == tuple(reversed(store.event_list(None).events))
    assert [event.kind for event in feed.events] == [
        *["set", "set", "conflict", "delete", "restore", "rename", "token"]
    ]
    assert feed.after == feed.events[-1].id
    assert store.event_follow(feed.after) == EventFeed(events=(), after=feed.after)


@pytest.mark.parametrize("limit", [1, 3, 4, 1000])
def test_a_feed_holds_so_many_and_the_next_one_goes_on(alice, store, limit):
    for number in range(12):
        alice.set(f"k{number}")
    feed = store.event_follow(0, limit=limit)

    assert [event.key for event in feed.events] == [f"k{number}" for number in range(12)][:limit]
    assert feed.after == feed.events[-1].id
    assert [event.key for event in follow(store, 0, limit=limit)] == [
        f"k{number}" for number in range(12)
    ]


def test_only_a_hundred_come_unless_more_are_asked_for(alice, store):
    writes = [alice.write(f"k{number}") for number in range(100)]
    store.fact_set_many(alice.caller, writes)
    alice.set("k100")

    assert len(store.event_follow(0).events) == 100
    assert len(store.event_follow(0, limit=101).events) == 101


def test_one_namespace_is_followed_without_the_others(store, caller):
    home, work = Hand(store, caller, "home"), Hand(store, caller, "work")
    home.set("a")
    work.set("b")
    store.token_create(caller, TokenGrant(name="ci", scopes=("read",)))
    home.set("c")
    store.namespace_delete(caller, "work", 1)

    assert told(store.event_follow(0, "home")) == [("set", "a"), ("set", "c")]
    assert told(store.event_follow(0, "work")) == [("set", "b"), ("delete", "b")]
    assert told(store.event_follow(0, "nowhere")) == []
    assert len(store.event_follow(0).events) == 5


def test_a_namespace_is_followed_under_its_new_name(store, caller):
    home, work = Hand(store, caller, "home"), Hand(store, caller, "work")
    home.set("a")
    after = newest(store)
    store.namespace_rename(caller, "home", "work")
    work.set("b")

    assert told(store.event_follow(after, "work")) == [("rename", None), ("set", "b")]
    assert told(store.event_follow(after, "home")) == []


def test_reads_are_told_only_to_who_asks_for_them(alice, store, settle):
    alice.set("k")
    alice.get("k")
    alice.keys()
    alice.search("k")
    settle()
    alice.delete("k")

    assert [event.kind for event in follow(store, 0)] == ["set", "delete"]
    assert [event.kind for event in follow(store, 0, include_reads=True)] == [
        *["set", "get", "list", "search", "delete"]
    ]


def test_events_that_were_not_asked_for_are_passed_by(alice, store, caller, settle):
    alice.get("k")
    settle()
    Hand(store, caller, "work").set("a")
    feed = store.event_follow(0, "home")

    assert feed == EventFeed(events=(), after=newest(store))
    assert feed.after > 0
    assert store.event_follow(0, limit=1) == EventFeed(
        events=store.event_list("work").events, after=feed.after
    )


def test_none_of_many_unwanted_events_hides_a_wanted_one(store, caller):
    home, work = Hand(store, caller, "home"), Hand(store, caller, "work")
    for number in range(10):
        work.set(f"w{number}")
    home.set("h")
    for number in range(10):
        work.set(f"w{number}")
    feed = store.event_follow(0, "home", limit=2)

    assert told(feed) == [("set", "h")]
    assert feed.after == newest(store)


@pytest.mark.parametrize("after", [2**62, MAX_ID])
def test_whoever_is_ahead_of_the_trail_stays_there(alice, store, after):
    alice.set("k")
    assert store.event_follow(after) == EventFeed(events=(), after=after)


def test_a_write_that_did_not_happen_is_not_told(alice, store):
    with pytest.raises(Invalid):
        alice.set("")
    assert store.event_follow(0).events == ()


BAD = {
    "after": [{"after": -1}, {"after": MAX_ID + 1}],
    "namespace": [{"namespace": ""}, {"namespace": "n" * 129}, {"namespace": "\ud800"}],
    "limit": [{"limit": 0}, {"limit": 1001}],
    "wait_seconds": [
        *[{"wait_seconds": -0.1}, {"wait_seconds": 30.1}],
        *[{"wait_seconds": float("nan")}, {"wait_seconds": float("inf")}],
    ],
}


@pytest.mark.parametrize(
    ("argument", "options"), [(name, given) for name in BAD for given in BAD[name]]
)
def test_what_is_not_allowed_is_named(store, argument, options):
    for after in ({}, {"after": None}):
        with pytest.raises(Invalid) as caught:
            store.event_follow(**{"after": 0} | after | options)
        assert caught.value.argument == argument
        if argument == "after":
            break


def test_with_no_event_the_feed_is_empty_when_the_time_is_over(alice, store):
    alice.set("k")
    after = newest(store)
    began = time.monotonic()
    feed = store.event_follow(after, wait_seconds=0.2)

    assert 0.2 <= time.monotonic() - began < 0.2 + SOON
    assert feed == EventFeed(events=(), after=after)


def test_events_that_were_not_asked_for_end_no_waiting(store, caller):
    work = Hand(store, caller, "work")
    work.set("a")
    after = newest(store)
    with ThreadPoolExecutor(1) as threads:
        following = threads.submit(store.event_follow, after, "home", wait_seconds=0.5)
        began = time.monotonic()
        while not following.done():
            work.set("a")
            assert time.monotonic() - began < 0.5 + SOON
    feed = following.result()

    assert feed.events == ()
    assert feed.after > after


def test_what_is_there_already_is_not_waited_for(alice, store):
    alice.set("k")
    began = time.monotonic()
    assert told(store.event_follow(0, wait_seconds=LONG)) == [("set", "k")]
    assert time.monotonic() - began < SOON


def heard_soon(store, write):
    """Whether each of a few writes is heard of soon after it was made."""
    after = newest(store)
    with ThreadPoolExecutor(1) as threads:
        for number in range(5):
            following = threads.submit(store.event_follow, after, "home", wait_seconds=LONG)
            assert not wait([following], timeout=0.05).done
            began = time.monotonic()
            write(f"k{number}")
            feed = following.result()
            assert time.monotonic() - began < SOON
            assert told(feed) == [("set", f"k{number}")]
            after = feed.after


def test_a_write_of_another_thread_is_heard_of_at_once(store, caller):
    heard_soon(store, Hand(store, caller, "home").set)


def test_a_write_of_another_store_is_heard_of_at_once(store, caller, opened):
    heard_soon(store, Hand(opened(), caller, "home").set)


WRITES_WHAT_IT_READS = """
import sys
from pathlib import Path
from memory_store.contract import Caller, FactWrite
from memory_store.sqlite import SqliteEngine
from memory_store.store import SqlStore
store = SqlStore(SqliteEngine(Path(sys.argv[1])))
caller = Caller(principal="token:bob", source_client="bob")
print("ready", flush=True)
for line in iter(sys.stdin.readline, ""):
    store.fact_set(caller, FactWrite(namespace="home", key=line.strip(), value="v"))
"""


def test_a_write_of_another_process_is_heard_of_at_once(opening, path):
    store = opening()
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITES_WHAT_IT_READS, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    with writer:
        assert writer.stdout.readline() == "ready\n"
        heard_soon(store, lambda key: writer.stdin.write(f"{key}\n"))
        writer.stdin.close()
        writer.wait(WAIT_SECONDS)


def test_reads_are_heard_of_by_who_asks_for_them(alice, store):
    alice.set("k")
    after = newest(store)
    alice.get("k")
    feed = store.event_follow(after, wait_seconds=LONG, include_reads=True)

    assert told(feed) == [("get", "k")]


def following_until(store, done, **options):
    """What a follower is told, until there was nothing more after `done`."""
    events, after = [], 0
    while True:
        last = done.is_set()
        feed = store.event_follow(after, wait_seconds=0.05, **options)
        events += feed.events
        after = feed.after
        if last and not feed.events:
            return events


@pytest.mark.parametrize("limit", [7, 1000])
def test_nothing_is_missed_or_told_twice_while_many_write(store, caller, opened, limit):
    """Over the store and over another on the same database."""
    other, done = opened(), threading.Event()

    def write(number):
        hand = Hand([store, other][number % 2], caller, f"n{number % 3}")
        for count in range(20):
            hand.set(f"{number}/{count}")
            hand.get(f"{number}/{count}")
            if count % 5 == 0:
                hand.delete(f"{number}/{count}")

    with ThreadPoolExecutor(12) as threads:
        everything = [
            threads.submit(following_until, place, done, limit=limit) for place in (store, other)
        ]
        one = threads.submit(following_until, store, done, limit=limit, namespace="n1")
        list(threads.map(write, range(8)))
        done.set()
    trail = Hand(store, caller, None).events()[::-1]
    assert len(trail) == 8 * 24
    for following in everything:
        assert following.result() == trail
    assert one.result() == [event for event in trail if event.namespace == "n1"]


def test_many_followers_do_not_stop_who_writes(store, caller):
    """More than a server has threads for those that are answered at once."""
    work, home = Hand(store, caller, "work"), Hand(store, caller, "home")
    with ThreadPoolExecutor(48) as threads:
        followers = [
            threads.submit(store.event_follow, 0, "home", wait_seconds=LONG) for _ in range(48)
        ]
        for number in range(20):
            began = time.monotonic()
            work.set(f"k{number}")
            assert work.get(f"k{number}").version == 1
            assert time.monotonic() - began < SOON
        assert not any(follower.done() for follower in followers)
        home.set("k")
        feeds = [follower.result(WAIT_SECONDS) for follower in followers]
    assert [told(feed) for feed in feeds] == [[("set", "k")]] * 48


def test_closing_the_store_ends_all_waiting(store, backing):
    with ThreadPoolExecutor(8) as threads:
        followers = [threads.submit(store.event_follow, 0, wait_seconds=LONG) for _ in range(8)]
        assert not wait(followers, timeout=0.1).done
        began = time.monotonic()
        backing.close()
        assert not wait(followers, timeout=WAIT_SECONDS).not_done
    assert time.monotonic() - began < SOON
    for follower in followers:
        assert isinstance(follower.exception(), Unavailable)


def test_a_store_that_is_about_to_close_ends_all_waiting(alice, store, backing):
    alice.set("k")
    with ThreadPoolExecutor(1) as threads:
        following = threads.submit(store.event_follow, newest(store), wait_seconds=LONG)
        assert not wait([following], timeout=0.1).done
        backing.stop_waiting(LONG)
        with pytest.raises(Unavailable, match="closing"):
            following.result(SOON)
    assert told(store.event_follow(0, wait_seconds=LONG)) == [("set", "k")]
    assert alice.set("k").version == 2


def test_a_closed_store_has_no_followers(store, backing):
    backing.close()
    for after in (None, 0):
        with pytest.raises(Unavailable):
            store.event_follow(after, wait_seconds=LONG)


def test_who_wrote_is_told_too(store):
    caller = Caller(
        principal="token:ci",
        source_client="ci",
        self_reported=False,
        claimed_client="somebody else",
        request_id="req-7 é",
    )
    Hand(store, caller).set("k")
    (event,) = store.event_follow(0).events

    assert event.model_dump(include=set(Caller.model_fields)) == caller.model_dump()
