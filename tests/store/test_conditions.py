"""Conditions on a write: one atomic step, and a refusal that names who won."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from memory_store.contract import Conflict, Invalid

HOLDING = [
    {"expected_value": "1"},
    {"expected_version": 1},
    {},
]
FAILING = [
    {"expected_value": "0"},
    {"expected_value": ""},
    {"expected_value": "1 "},
    {"expected_version": 2},
    {"expected_version": 0},
    {"expected_version": 10**30},
    {"require_absent": True},
]


@pytest.mark.parametrize("condition", HOLDING)
def test_a_write_whose_condition_holds_is_stored(alice, condition):
    alice.set("k", "1")

    assert alice.set("k", "2", **condition).version == 2


@pytest.mark.parametrize("condition", FAILING)
def test_a_write_whose_condition_does_not_hold_changes_nothing(alice, bob, condition):
    winner = alice.set("k", "1", tags=("t",))
    with pytest.raises(Conflict) as conflict:
        bob.set("k", "2", tags=("other",), **condition)

    assert conflict.value.current == winner
    assert conflict.value.argument == "key"
    assert "written by alice at 2026-01-01T00:00:00.000Z" in conflict.value.message
    assert alice.get("k") == winner
    assert alice.keys(tags=["other"]) == alice.found("2") == []


@pytest.mark.parametrize("condition", [{"expected_version": 0}, {"require_absent": True}])
def test_a_key_that_must_be_absent_is_created_once(alice, condition):
    assert alice.set("k", "1", **condition).version == 1
    with pytest.raises(Conflict, match="exists already"):
        alice.set("k", "2", **condition)
    alice.delete("k")
    assert alice.set("k", "3", **condition).version == 2


@pytest.mark.parametrize("condition", [{"expected_value": "1"}, {"expected_version": 1}])
def test_a_condition_on_an_absent_key_conflicts_with_nobody(alice, condition):
    with pytest.raises(Conflict, match="is absent") as conflict:
        alice.set("k", "2", **condition)

    assert conflict.value.current is None
    assert alice.get("k") is None
    (event,) = alice.events("k")
    assert (event.kind, event.version, event.value_before) == ("conflict", None, None)
    assert event.value_after == "2"


def test_the_version_of_a_deleted_fact_does_not_come_back(alice):
    alice.set("k", "1")
    alice.delete("k")
    with pytest.raises(Conflict):
        alice.set("k", "2", expected_version=1)

    assert alice.set("k", "3").version == 2


def test_a_conflict_event_names_the_winner_and_what_was_refused(alice, bob):
    alice.set("k", "1")
    with pytest.raises(Conflict):
        bob.set("k", "2", expected_version=7)
    event = bob.events("k")[0]

    assert (event.kind, event.key, event.version) == ("conflict", "k", 1)
    assert (event.value_before, event.value_after) == ("1", "2")
    assert event.source_client == "bob"
    assert event.detail == {"refused": "set", "expected_version": 7}


def test_the_winner_that_a_conflict_names_stays_after_later_writes(alice):
    alice.set("k", "1")
    with pytest.raises(Conflict):
        alice.set("k", "x", require_absent=True)
    alice.set("k", "2")
    alice.delete("k")

    conflict = next(event for event in alice.events("k") if event.kind == "conflict")
    assert conflict.value_before == "1"


def test_a_deletion_may_be_conditional(alice, bob):
    winner = alice.set("k", "1")
    with pytest.raises(Conflict, match="version 1, not 2") as conflict:
        bob.delete("k", expected_version=2)

    assert conflict.value.current == winner
    assert alice.get("k") == winner
    event = alice.events("k")[0]
    assert (event.kind, event.version, event.value_before, event.value_after) == (
        "conflict",
        1,
        "1",
        None,
    )
    assert event.detail["refused"] == "delete"
    assert alice.delete("k", expected_version=1) == winner


@pytest.mark.parametrize(
    "condition",
    [
        {"expected_value": "1", "require_absent": True},
        {"expected_value": "1", "expected_version": 1},
        {"expected_version": 1, "require_absent": True},
        {"expected_value": "", "expected_version": 0, "require_absent": True},
    ],
)
def test_conditions_exclude_each_other(alice, condition):
    alice.set("k", "1")
    with pytest.raises(Invalid) as refused:
        alice.set("k", "2", **condition)

    assert all(name in refused.value.message for name in condition)
    assert refused.value.argument in condition
    assert alice.get("k").version == 1
    assert len(alice.events("k")) == 1


@pytest.mark.parametrize("value", ["", "0", "e\u0301", "\u00e9", " ", "\U0010ffff"])
def test_an_expected_value_is_compared_exactly(alice, value):
    alice.set("k", value)
    with pytest.raises(Conflict):
        alice.set("k", "2", expected_value=value + " ")

    assert alice.set("k", "2", expected_value=value).version == 2


def increment(hand, key):
    """Reads and writes until nobody came between; returns how often somebody did."""
    conflicts = 0
    while True:
        fact = hand.get(key)
        try:
            hand.set(key, str(int(fact.value) + 1), expected_version=fact.version)
        except Conflict:
            conflicts += 1
        else:
            return conflicts


def test_increments_of_sixteen_threads_on_one_key_end_exactly(alice):
    alice.set("n", "0")
    with ThreadPoolExecutor(16) as threads:
        conflicts = sum(threads.map(lambda _: increment(alice, "n"), range(64)))

    assert (alice.get("n").value, alice.get("n").version) == ("64", 65)
    kinds = [event.kind for event in alice.events("n")]
    assert (kinds.count("set"), kinds.count("conflict")) == (65, conflicts)


def test_of_many_who_create_a_key_at_once_one_does(alice):
    def create(number):
        try:
            return alice.set("k", str(number), require_absent=True).value
        except Conflict as conflict:
            return conflict.current.value

    with ThreadPoolExecutor(16) as threads:
        seen = set(threads.map(create, range(64)))

    assert seen == {alice.get("k").value}
    assert alice.get("k").version == 1
