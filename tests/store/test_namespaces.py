"""Namespaces under other names, and emptied: what they held stays what it was."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from memory_store.clock import moment
from memory_store.contract import Conflict, Invalid, NamespaceInfo, NotFound
from store.holders import Hand

WAIT_SECONDS = 10


@pytest.fixture
def home(store, caller):
    return Hand(store, caller, "home")


@pytest.fixture
def work(store, caller):
    return Hand(store, caller, "work")


def rename(hand, name):
    return hand.store.namespace_rename(hand.caller, hand.namespace, name)


def delete(hand, expected):
    return hand.store.namespace_delete(hand.caller, hand.namespace, expected)


def names(store):
    return [(it.name, it.facts) for it in store.namespace_list()]


def unplaced(fact):
    return fact.model_dump(exclude={"namespace"})


def test_a_renamed_namespace_is_listed_under_its_new_name_alone(home, store, alice):
    alice.set("other")
    home.set("a")
    home.set("b")

    assert rename(home, "é🦉 %_'") == NamespaceInfo(name="é🦉 %_'", facts=2)
    assert names(store) == [("default", 1), ("é🦉 %_'", 2)]
    assert store.stats().namespaces == 2


def test_facts_and_versions_are_the_same_under_the_new_name(home, work, clock):
    first = home.set("k", "1", tags=("t",), metadata={"n": [1]}, ttl_seconds=3600)
    written = moment(clock())
    clock.advance(60)
    now = home.set("k", "2")
    home.set("gone", "3")
    home.delete("gone")
    rename(home, "work")

    assert work.keys() == work.keys(tags=["t"]) == ["k"]
    assert unplaced(work.get("k")) == unplaced(now)
    for at in (1, written):
        assert unplaced(work.get("k", at)) == unplaced(first) | {"index": None}
    assert work.get("k").namespace == work.get("gone", 1).namespace == "work"
    assert work.get("gone", 1).value == "3"
    assert work.set("k", "4").version == 3
    assert work.restore("gone", 1).version == 2


@pytest.fixture
def renamed(home):
    home.set("k", "a word")
    rename(home, "work")


@pytest.mark.usefixtures("renamed")
def test_nothing_is_left_under_the_old_name(home):
    assert home.keys() == []
    assert home.get("k") is home.get("k", 1) is None
    assert home.found("word") == []
    assert home.events() == []
    assert home.store.stats("home").facts == home.store.stats("home").versions == 0
    with pytest.raises(NotFound):
        home.delete("k")


@pytest.mark.usefixtures("renamed")
def test_the_old_name_can_be_used_anew(home, work, store):
    assert home.set("k", "new").version == 1
    assert work.get("k").value == "a word"
    assert names(store) == [("home", 1), ("work", 1)]
    assert rename(work, "elsewhere").facts == 1
    assert rename(home, "work").facts == 1


def test_the_trail_goes_along_with_its_values_and_says_who_renamed(home, work, clock, bob):
    home.set("k", "1")
    home.set("k", "2")
    with pytest.raises(Conflict):
        home.set("k", "3", expected_version=1)
    home.delete("k")
    clock.advance(60)
    home.store.namespace_rename(bob.caller, "home", "work")
    work.set("k", "4")
    events = work.events()

    assert [(it.kind, it.value_before, it.value_after) for it in events] == [
        ("set", None, "4"),
        ("rename", None, None),
        ("delete", "2", None),
        ("conflict", "2", "3"),
        ("set", "1", "2"),
        ("set", None, "1"),
    ]
    assert {event.namespace for event in events} == {"work"}
    renamed = events[1]
    assert renamed.detail == {"from": "home", "to": "work"}
    assert (renamed.source_client, renamed.principal) == ("bob", "token:bob")
    assert (renamed.at, renamed.key, renamed.version) == (moment(clock()), None, None)


def test_words_are_found_under_the_new_name(home, work, alice):
    alice.set("mine", "an owl")
    home.set("k", "an owl in 東京都", tags=("bird",))
    rename(home, "work")
    work.set("later", "another owl")

    assert sorted(work.found("owl")) == ["k", "later"]
    assert work.found("東京") == ["k"]
    assert work.found("owl", tags=("bird",), prefix="k") == ["k"]
    assert alice.found("owl") == ["mine"]


def test_meaning_is_found_under_the_new_name_without_embedding_again(home, work, meaning, alice):
    alice.set("mine", "red apples")
    home.set("fruit", "red apples")
    home.set("tool", "a claw hammer")
    meaning.catch_up()
    embedded = list(meaning.embedder.embedded)
    before = home.search(mode="semantic", **meaning.query("apples"))
    rename(home, "work")
    after = work.search(mode="semantic", **meaning.query("apples"))

    assert meaning.catch_up() == 0
    assert [text for text in meaning.embedder.embedded if text != "apples"] == embedded
    assert after.mode == "semantic"
    assert [(hit.fact.key, hit.score) for hit in after.hits] == [
        (hit.fact.key, hit.score) for hit in before.hits
    ]
    assert after.hits[0].fact.index == "ready"
    assert work.store.stats("work").embedded == 2
    assert home.search(mode="semantic", **meaning.query("apples")).hits == ()


def test_what_awaited_its_embedding_gets_it_under_the_new_name(home, work, meaning):
    home.set("fruit", "red apples")
    rename(home, "work")

    assert work.get("fruit").index == "pending"
    assert work.store.stats("work").backlog.pending == 1
    assert meaning.catch_up() == 1
    assert work.found(mode="semantic", **meaning.query("apples")) == ["fruit"]


def test_a_cursor_from_before_skips_nothing_under_the_new_name(home, work):
    for key in "abcd":
        home.set(key)
    cursor = home.store.fact_list(home.caller, "home", limit=2).next_cursor
    rename(home, "work")

    with pytest.raises(Invalid) as caught:
        work.keys(limit=2, cursor=cursor)
    assert caught.value.argument == "cursor"
    assert work.keys(limit=2) == ["a", "b", "c", "d"]


def test_a_write_repeated_under_its_idempotency_key_is_not_written_under_the_old_name(home, work):
    written = home.set("k", "1", idempotency_key="once")
    rename(home, "work")

    assert home.set("k", "1", idempotency_key="once") == written
    assert home.keys() == []
    assert work.get("k").version == 1


def test_a_name_that_is_taken_is_not_given(home, work, store):
    home.set("a", "hers")
    work.set("a", "his")
    events = store.event_list(None).events

    for name in ("work", "home"):
        with pytest.raises(Conflict, match=name) as caught:
            rename(home, name)
        assert (caught.value.argument, caught.value.current) == ("name", None)
    assert (home.get("a").value, work.get("a").value) == ("hers", "his")
    assert store.event_list(None).events == events


def test_a_name_whose_facts_are_gone_is_still_taken_by_their_versions(home, work):
    home.set("a")
    work.set("a")
    work.delete("a")

    with pytest.raises(Conflict, match="work"):
        rename(home, "work")
    assert rename(work, "elsewhere").facts == 0
    assert rename(home, "work").facts == 1


@pytest.mark.parametrize("act", [rename, delete])
def test_a_namespace_that_never_was_is_not_found(home, act, store):
    with pytest.raises(NotFound, match="home") as caught:
        act(home, "work" if act is rename else 0)
    assert caught.value.argument == "namespace"
    assert names(store) == []
    assert store.event_list(None).events == ()


@pytest.mark.parametrize("act", [rename, delete])
def test_looking_into_a_namespace_does_not_make_it(home, act, settle):
    home.get("k")
    home.keys()
    home.search("k")
    settle()
    with pytest.raises(Conflict):
        home.set("k", expected_version=3)

    with pytest.raises(NotFound):
        act(home, "work" if act is rename else 0)


def test_a_name_that_was_only_looked_at_is_free(home, work, settle):
    work.get("k")
    settle()
    home.set("k", "1")

    assert rename(home, "work").facts == 1
    assert work.get("k").value == "1"
    settle()
    assert [event.kind for event in work.events(include_reads=True)] == [
        *["get", "rename", "set", "get"]
    ]


@pytest.mark.parametrize("name", ["", "n" * 129, "a\0", "\ud800"])
def test_names_that_cannot_be_are_refused(home, store, name):
    home.set("k")
    calls = {
        "name": lambda: rename(home, name),
        "namespace": lambda: rename(Hand(store, home.caller, name), "work"),
    }
    for argument, call in calls.items():
        with pytest.raises(Invalid) as caught:
            call()
        assert caught.value.argument == argument
    with pytest.raises(Invalid) as caught:
        delete(Hand(store, home.caller, name), 0)
    assert caught.value.argument == "namespace"
    assert names(store) == [("home", 1)]


def test_of_two_that_want_a_name_one_gets_it(home, work, store):
    home.set("k")
    work.set("k")
    ready = threading.Barrier(2)

    def race(hand):
        ready.wait(WAIT_SECONDS)
        try:
            return rename(hand, "won").name
        except Conflict:
            return None

    with ThreadPoolExecutor(2) as threads:
        assert sorted(map(str, threads.map(race, (home, work)))) == ["None", "won"]
    assert len(names(store)) == 2


def test_no_write_is_lost_to_a_renaming(store, caller, home):
    """It lands before, and goes along, or after, and begins the old name anew."""
    home.set("first")

    def write(number):
        return home.set(f"k{number}").key

    with ThreadPoolExecutor(4) as threads:
        writes = threads.map(write, range(60))
        rename(home, "work")
        written = {"first", *writes}
    work = Hand(store, caller, "work")
    assert sorted([*home.keys(), *work.keys()]) == sorted(written)


def test_a_namespace_is_deleted_with_the_right_count_only(home, work, store, clock):
    work.set("k")
    for key in "abc":
        home.set(key)
    home.set("short", ttl_seconds=1)
    clock.advance(1)
    events = store.event_list(None).events
    for count in (-1, 0, 2, 4, 2**70):
        with pytest.raises(Conflict, match="holds 3 facts") as caught:
            delete(home, count)
        assert caught.value.argument == "expected_facts"
    assert home.keys() == ["a", "b", "c"]
    assert store.event_list(None).events == events

    assert delete(home, 3) == 3
    assert names(store) == [("work", 1)]


def test_every_deleted_fact_has_its_event(home, bob, clock):
    for key in ("b", "a"):
        home.set(key, f"value of {key}")
    clock.advance(60)
    home.store.namespace_delete(bob.caller, "home", 2)
    events = home.events()

    assert [(it.kind, it.key, it.version) for it in events] == [
        *[("delete", "b", 1), ("delete", "a", 1), ("set", "a", 1), ("set", "b", 1)]
    ]
    for event in events[:2]:
        assert (event.value_before, event.value_after) == (f"value of {event.key}", None)
        assert (event.source_client, event.principal) == ("bob", "token:bob")
        assert event.at == moment(clock())


def test_what_was_deleted_with_its_namespace_is_absent_but_can_be_read_and_restored(home):
    written = home.set("k", "1", tags=("t",), metadata={"a": 1})
    delete(home, 1)

    assert home.get("k") is None
    assert home.keys() == home.keys(tags=["t"]) == home.found("1") == []
    assert unplaced(home.get("k", 1)) == unplaced(written) | {"index": None}
    restored = home.restore("k", 1)
    assert (restored.version, restored.value, restored.tags) == (2, "1", ("t",))
    assert names(home.store) == [("home", 1)]


def test_what_time_a_key_went_with_its_namespace_is_known(home, clock):
    home.set("k", "1")
    clock.advance(10)
    before = moment(clock())
    clock.advance(10)
    delete(home, 1)

    assert home.get("k", before).value == "1"
    assert home.get("k", moment(clock())) is None


def test_vectors_words_and_changes_go_with_a_namespace(home, work, meaning, backing):
    for hand in (home, work):
        hand.set("embedded", "red apples")
    meaning.catch_up()
    home.set("pending", "green pears")
    delete(home, 2)

    stats = home.store.stats()
    assert (stats.facts, stats.embedded, stats.backlog.pending) == (1, 1, 0)
    with backing.engine.read() as session:
        assert len(session.all("SELECT subject FROM vector")) == 1
        assert backing.engine.text.commonness(session, ["red", "pear"])[1] == {
            "red": 1.0,
            "pear": 0.0,
        }
    for mode in ("lexical", "semantic", "hybrid"):
        assert home.found(mode=mode, **meaning.query("red apples green pears")) == []
        assert work.found(mode=mode, **meaning.query("red apples")) == ["embedded"]


def test_a_vector_that_arrives_late_finds_no_fact_of_a_deleted_namespace(home, meaning):
    home.set("k", "red apples")
    meaning.store.model_use(meaning.embedder.identity)
    (change,) = meaning.store.change_take("worker", meaning.model)
    delete(home, 1)
    vectors = meaning.vectors(change.sequence, change.subject, change.version, change.text)

    assert meaning.store.vector_put("worker", meaning.model, [vectors]) == 0
    home.set("other", "a claw hammer")
    assert home.found(mode="semantic", **meaning.query("apples")) == []


def test_an_empty_namespace_can_be_deleted_again(home):
    home.set("k")
    delete(home, 1)

    assert delete(home, 0) == 0
    with pytest.raises(Conflict):
        delete(home, 1)
    assert len(home.events()) == 2


def test_a_deleted_namespace_can_be_renamed_and_used_again(home, work):
    home.set("k", "1")
    delete(home, 1)

    assert rename(home, "work") == NamespaceInfo(name="work", facts=0)
    assert work.restore("k", 1).version == 2
    assert home.set("k").version == 1


def test_of_many_that_delete_a_namespace_one_does(home):
    for number in range(20):
        home.set(f"k{number}")

    def attempt(_):
        try:
            return delete(home, 20)
        except Conflict:
            return None

    with ThreadPoolExecutor(4) as threads:
        assert list(filter(None, threads.map(attempt, range(8)))) == [20]
    assert [event.kind for event in home.events()].count("delete") == 20
