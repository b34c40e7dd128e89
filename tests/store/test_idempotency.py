"""A retried write is applied once and answered the same."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from memory_store.contract import Caller, Conflict, IdempotencyMismatch, NotFound
from store.holders import Hand


def test_a_retried_write_is_applied_once_and_answered_the_same(alice, bob):
    fields = {"tags": ("t",), "metadata": {"x": [1.5, None]}, "ttl_seconds": 60}
    first = alice.set("k", "1", idempotency_key="once", **fields)
    bob.set("k", "2")

    assert alice.set("k", "1", idempotency_key="once", **fields) == first
    assert alice.get("k").value == "2"
    assert len(alice.events("k")) == 2


def test_a_retried_conflict_is_the_same_conflict(alice):
    winner = alice.set("k", "1")
    messages = []
    for _ in range(2):
        with pytest.raises(Conflict) as conflict:
            alice.set("k", "2", expected_value="0", idempotency_key="once")
        messages.append(conflict.value.message)
        assert conflict.value.current == winner
        alice.delete("k") if alice.get("k") else None

    assert messages[0] == messages[1]
    assert [event.kind for event in alice.events("k")] == ["delete", "conflict", "set"]


def test_a_retried_deletion_leaves_what_was_written_since(alice):
    alice.set("k", "1")
    removed = alice.delete("k", idempotency_key="once")
    alice.set("k", "2")

    assert alice.delete("k", idempotency_key="once") == removed
    assert alice.get("k").value == "2"


def test_a_retried_restoration_is_done_once(alice):
    alice.set("k", "1")
    alice.set("k", "2")
    restored = alice.restore("k", 1, idempotency_key="once")
    alice.set("k", "3")

    assert alice.restore("k", 1, idempotency_key="once") == restored
    assert alice.get("k").value == "3"
    with pytest.raises(IdempotencyMismatch):
        alice.restore("k", 2, idempotency_key="once")


def test_a_deletion_that_found_nothing_may_be_tried_again(alice):
    with pytest.raises(NotFound):
        alice.delete("k", idempotency_key="once")
    alice.set("k", "1")

    assert alice.delete("k", idempotency_key="once").value == "1"


@pytest.mark.parametrize(
    "other",
    [
        {"value": "2"},
        {"key": "l"},
        {"tags": ("t",)},
        {"metadata": {}},
        {"ttl_seconds": 60},
        {"require_absent": True},
    ],
)
def test_a_key_that_comes_with_another_write_is_refused(alice, other):
    alice.set(key="k", value="1", idempotency_key="once")
    with pytest.raises(IdempotencyMismatch, match="'once'") as refused:
        alice.set(**{"key": "k", "value": "1", "idempotency_key": "once"} | other)

    assert refused.value.argument == "idempotency_key"
    assert alice.keys() == ["k"]
    assert alice.get("k").version == 1


def test_a_key_of_a_write_is_none_for_a_deletion(alice):
    alice.set("k", "1", idempotency_key="once")
    with pytest.raises(IdempotencyMismatch):
        alice.delete("k", idempotency_key="once")

    assert alice.get("k").value == "1"


def test_the_order_in_metadata_makes_no_other_write(alice):
    first = alice.set("k", "1", metadata={"a": 1, "b": {"c": 2, "d": 3}}, idempotency_key="once")

    reordered = {"b": {"d": 3, "c": 2}, "a": 1}
    assert alice.set("k", "1", metadata=reordered, idempotency_key="once") == first


@pytest.mark.parametrize(
    "other",
    [
        Caller(principal="token:bob", source_client="alice"),
        Caller(principal="token:alice", source_client="editor"),
    ],
)
def test_a_key_belongs_to_one_principal_and_client(alice, store, other):
    alice.set("k", "1", idempotency_key="once")
    Hand(store, other).set("k", "2", idempotency_key="once")

    assert alice.get("k").value == "2"


def test_a_key_is_good_for_a_day(alice, clock):
    first = alice.set("k", "1", idempotency_key="once")
    clock.advance(24 * 3600 - 0.001)
    assert alice.set("k", "1", idempotency_key="once") == first
    clock.advance(0.001)

    assert alice.set("k", "1", idempotency_key="once").version == 2
    clock.advance(3600)
    assert alice.set("k", "1", idempotency_key="once").version == 2


def test_of_many_writes_each_has_its_own_key(alice, store):
    writes = [
        alice.write("a", "1", idempotency_key="first"),
        alice.write("a", "2", idempotency_key="second"),
        alice.write("a", "1", idempotency_key="first"),
        alice.write("a", "3", idempotency_key="first"),
    ]
    outcomes = store.fact_set_many(alice.caller, writes)

    assert [it.fact.version if it.fact else it.problem.code for it in outcomes] == [
        1,
        2,
        1,
        "idempotency_mismatch",
    ]
    assert store.fact_set_many(alice.caller, writes) == outcomes
    assert alice.get("a").version == 2


def test_a_write_that_many_threads_retry_at_once_is_applied_once(alice):
    with ThreadPoolExecutor(16) as threads:
        facts = list(threads.map(lambda _: alice.set("k", "1", idempotency_key="once"), range(64)))

    assert len({fact.version for fact in facts}) == 1
    assert len(alice.events("k")) == 1
