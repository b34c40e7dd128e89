"""Facts as they are, as they were, and as they are again."""

from datetime import timedelta

import pytest

from memory_store.clock import moment
from memory_store.contract import NotFound
from store.holders import Hand

NASTY = [
    "",
    " leading and trailing ",
    "line\nbreak\r\n\ttab",
    "quote ' double \" back \\ percent % underscore _",
    "emoji 👩‍👩‍👧‍👦 flag 🇩🇪 last \U0010ffff",
    "composed é decomposed e\u0301",
    "right-to-left \u202eevil\u202c zero\u200bwidth",
    "\x01\x02\x1b[31m\x7f\ufeff\ufffe",
    "'; DROP TABLE fact; --",
    '{"json": [1, 2, {"a": null}]}',
]


def test_a_fact_that_was_set_is_there(alice, clock):
    written = alice.set("deploy/db-port", "5432", tags=("db", "prod"), metadata={"from": ["wiki"]})

    assert written.value == "5432"
    assert written.version == 1
    assert written.tags == ("db", "prod")
    assert written.metadata == {"from": ["wiki"]}
    assert written.created_at == written.updated_at == moment(clock())
    assert written.expires_at is None
    assert alice.get("deploy/db-port") == written


def test_an_absent_key_is_none(alice):
    assert alice.get("nothing") is None


@pytest.mark.parametrize("text", NASTY)
def test_text_is_kept_exactly_as_given(alice, text):
    alice.set("v", text)
    alice.set(f"k{text}", "v")

    assert alice.get("v").value == text
    assert alice.get(f"k{text}").key == f"k{text}"


def test_keys_are_compared_exactly(alice):
    keys = ["Key", "key", "KEY", "key ", " key", "caf\u00e9", "cafe\u0301", "k\u200bey"]
    for key in keys:
        alice.set(key, f"value of {key!r}")

    assert {key: alice.get(key).value for key in keys} == {key: f"value of {key!r}" for key in keys}


def test_the_last_write_wins_and_says_whose_it_is(alice, bob, clock):
    first = alice.set("k", "hers")
    clock.advance(5)
    bob.set("k", "his")
    fact = alice.get("k")

    assert (fact.value, fact.version) == ("his", 2)
    assert (fact.source_client, fact.principal) == ("bob", "token:bob")
    assert fact.created_at == first.created_at
    assert fact.updated_at == first.updated_at + timedelta(seconds=5)


def test_tags_and_metadata_left_out_stay_as_they_are(alice):
    alice.set("k", "1", tags=("a", "b"), metadata={"x": 1})
    fact = alice.set("k", "2")

    assert (fact.tags, fact.metadata) == (("a", "b"), {"x": 1})


def test_empty_tags_and_metadata_clear_them(alice):
    alice.set("k", "1", tags=("a", "b"), metadata={"x": 1})
    fact = alice.set("k", "2", tags=(), metadata={})

    assert (fact.tags, fact.metadata) == ((), {})
    assert alice.keys(tags=["a"]) == []


def test_a_repeated_tag_is_one_tag_and_their_order_stays(alice):
    assert alice.set("k", tags=("b", "a", "b")).tags == ("b", "a")


@pytest.mark.parametrize(
    "metadata",
    [
        {"nested": {"list": [1, 2.5, None, True, "ü"]}, "": "empty key"},
        {"big": 2**70, "small": -0.1, "exponent": 1e300},
        {"k\n\"'%_\U0010ffff": "\x01"},
    ],
)
def test_metadata_is_any_json_object(alice, metadata):
    alice.set("k", metadata=metadata)

    assert alice.get("k").metadata == metadata


def test_what_was_deleted_is_returned_and_gone(alice):
    alice.set("k", "1")
    written = alice.set("k", "2", tags=("t",))

    assert alice.delete("k") == written
    assert alice.get("k") is None
    assert alice.keys() == []
    assert alice.keys(tags=["t"]) == []


def test_deleting_what_is_absent_says_so(alice):
    with pytest.raises(NotFound, match="'k'") as missing:
        alice.delete("k")
    assert missing.value.argument == "key"
    assert alice.events() == []


def test_versions_go_on_after_a_deletion(alice, clock):
    alice.set("k", "1", tags=("t",), metadata={"x": 1})
    alice.set("k", "2")
    alice.delete("k")
    clock.advance(1)
    fact = alice.set("k", "3")

    assert fact.version == 3
    assert (fact.tags, fact.metadata) == ((), {})
    assert fact.created_at == moment(clock())


def test_every_version_stays_readable_as_it_was_written(alice, bob, clock):
    first = alice.set("k", "1", tags=("t",))
    clock.advance(1)
    second = bob.set("k", "2", metadata={"x": 1})
    alice.delete("k")

    assert alice.get("k", at=1) == first.model_copy(update={"index": None})
    assert alice.get("k", at=2) == second.model_copy(update={"index": None})
    assert alice.get("k", at=3) is None


def test_a_time_gives_what_was_there_then(alice, clock):
    times = [moment(clock() - 1)]

    def step():
        times.append(moment(clock()))
        clock.advance(10)

    alice.set("k", "1")
    step()
    alice.set("k", "2")
    step()
    alice.delete("k")
    step()
    alice.set("k", "4")
    step()
    alice.set("k", "5", ttl_seconds=5)
    step()
    times.append(times[-1] + timedelta(seconds=5))
    seen = [alice.get("k", at=at) for at in times]

    values = [None if fact is None else fact.value for fact in seen]
    assert values == [None, "1", "2", None, "4", "5", None]


def test_a_time_between_two_writes_gives_the_earlier_one_in_any_zone(alice, clock):
    alice.set("k", "1")
    clock.advance(3600)
    between = moment(clock() - 1)
    alice.set("k", "2")

    assert alice.get("k", at=between.astimezone()).value == "1"


def test_a_clock_that_steps_back_does_not_turn_versions_around(alice, clock):
    alice.set("k", "1")
    before = clock()
    clock.advance(-60)
    second = alice.set("k", "2")

    assert second.updated_at == moment(before)
    assert alice.get("k", at=moment(before)).value == "2"


def test_a_restored_version_is_a_new_one(alice, bob, clock):
    alice.set("k", "1", tags=("t",), metadata={"x": 1}, ttl_seconds=60)
    alice.set("k", "2", tags=())
    clock.advance(1)
    fact = bob.restore("k", 1)

    assert (fact.value, fact.version, fact.tags, fact.metadata) == ("1", 3, ("t",), {"x": 1})
    assert fact.expires_at is None
    assert fact.source_client == "bob"
    assert alice.get("k") == fact


def test_a_deleted_key_can_be_restored(alice):
    alice.set("k", "1")
    alice.delete("k")

    assert alice.restore("k", 1).version == 2
    assert alice.get("k").value == "1"


@pytest.mark.parametrize("key", ["k", "never written"])
def test_restoring_a_version_that_never_was_says_so(alice, key):
    alice.set("k", "1")
    with pytest.raises(NotFound, match="no version 7") as missing:
        alice.restore(key, 7)

    assert missing.value.argument == "version"
    assert alice.get("k").version == 1


def test_an_expired_fact_is_absent_everywhere(alice, store, clock):
    fact = alice.set("k", "secret word", tags=("t",), ttl_seconds=10)
    assert fact.expires_at == moment(clock() + 10_000)
    clock.advance(9.999)
    assert alice.get("k") == fact
    clock.advance(0.001)

    assert alice.get("k") is None
    assert store.fact_get_many(alice.caller, "default", ["k"]) == [None]
    assert alice.keys() == alice.keys(tags=["t"]) == alice.found("secret") == []
    assert store.namespace_list() == []
    assert store.stats().facts == 0
    with pytest.raises(NotFound):
        alice.delete("k")
    assert alice.get("k", at=1).value == "secret word"


def test_a_fact_written_over_an_expired_one_starts_anew(alice, clock):
    alice.set("k", "1", tags=("t",), ttl_seconds=10)
    clock.advance(10)
    fact = alice.set("k", "2", require_absent=True)

    assert (fact.version, fact.tags, fact.created_at) == (2, (), moment(clock()))
    assert [event.kind for event in alice.events("k")] == ["set", "expire", "set"]


def test_a_write_without_ttl_ends_the_expiry(alice, clock):
    alice.set("k", "1", ttl_seconds=10)
    alice.set("k", "2")
    clock.advance(20)

    assert alice.get("k").value == "2"


def test_namespaces_are_separate_memories(store, caller):
    home, work = Hand(store, caller, "home"), Hand(store, caller, "work")
    home.set("k", "at home")
    home.set("l", "at home too")
    work.set("k", "at work", tags=("t",))

    assert (home.get("k").value, work.get("k").value) == ("at home", "at work")
    assert (home.keys(), work.keys()) == (["k", "l"], ["k"])
    assert home.keys(tags=["t"]) == home.found("work") == []
    assert [(it.name, it.facts) for it in store.namespace_list()] == [("home", 2), ("work", 1)]
    work.delete("k")
    assert home.get("k").value == "at home"
    assert [it.name for it in store.namespace_list()] == ["home"]


def test_many_writes_are_each_on_their_own(alice, store):
    alice.set("taken", "mine")
    writes = [
        alice.write("a", "1"),
        alice.write("taken", "yours", require_absent=True),
        alice.write("", "no key"),
        alice.write("a", "2", expected_value="1"),
        alice.write("b", "3"),
    ]
    outcomes = store.fact_set_many(alice.caller, writes)

    assert [it.fact.value if it.fact else it.problem.code for it in outcomes] == [
        "1",
        "conflict",
        "invalid_argument",
        "2",
        "3",
    ]
    assert outcomes[1].problem.current.value == "mine"
    assert outcomes[2].problem.argument == "key"
    assert alice.keys() == ["a", "b", "taken"]


def test_many_are_got_in_the_order_of_their_keys(alice, store):
    for key in "abc":
        alice.set(key, key.upper())
    found = store.fact_get_many(alice.caller, "default", ["c", "x", "a", "c"])

    assert [fact and fact.value for fact in found] == ["C", None, "A", "C"]


def test_stats_count_one_namespace_or_all(store, caller, settle):
    home, work = Hand(store, caller, "home"), Hand(store, caller, "work")
    home.set("a", "1")
    home.set("a", "2")
    home.set("b", "3")
    work.set("c", "4")
    work.delete("c")
    home.get("a")
    settle()

    here, there, everywhere = store.stats("home"), store.stats("work"), store.stats()
    assert (here.facts, here.versions, here.events) == (2, 3, 4)
    assert (there.facts, there.versions, there.events) == (0, 1, 2)
    assert (everywhere.facts, everywhere.versions, everywhere.events) == (2, 4, 6)
    assert everywhere.namespaces == 1
    assert everywhere.backlog.pending == 2
    assert everywhere.bytes > 0
    assert everywhere.free_bytes is None or everywhere.free_bytes > 0
    assert everywhere.schema_version >= 1
