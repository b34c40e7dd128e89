"""What is not allowed is refused by its name, with the limit, and changes nothing."""

import re

import pytest

from memory_store.contract import Invalid, NotFound
from memory_store.limits import Limits
from store.holders import Hand

NUL, SURROGATE = "a\0b", "a\ud800b"


def text_faults(most):
    return [("x" * (most + 1), f"{most:,}"), (NUL, "NUL"), (SURROGATE, "surrogate")]


def name_faults(most):
    return [("", "empty"), *text_faults(most)]


def faults(argument, cases):
    return [pytest.param(argument, value, says, id=f"{argument}-{says}") for value, says in cases]


WRITES = [
    *faults("key", name_faults(256)),
    *faults("namespace", name_faults(128)),
    *faults("value", text_faults(16_384)),
    *faults("expected_value", [*text_faults(16_384)]),
    *faults("expected_version", [(-1, "1, 2, 3")]),
    *faults("tags", [(tuple(str(n) for n in range(65)), "64"), (("",), "empty"), ((NUL,), "NUL")]),
    *faults("tags", [((SURROGATE,), "surrogate"), (("x" * 129,), "128")]),
    *faults("metadata", [({"a": "x" * 16_384}, "16,384"), ({"a": SURROGATE}, "surrogate")]),
    *faults("metadata", [({"a": float("nan")}, "NaN"), ({"a": float("-inf")}, "infinity")]),
    *faults("ttl_seconds", [(0, "0.001"), (-5, "0.001"), (1e12, "315,360,000")]),
    *faults("ttl_seconds", [(float("nan"), "nan"), (float("inf"), "inf")]),
    *faults("idempotency_key", name_faults(128)),
]
VALID = {"key": "k", "value": "2"}


@pytest.fixture
def unchanged(alice, store, settle):
    """Checks after the test that the store holds what it held before."""
    before = alice.set("k", "1", tags=("t",))
    yield
    settle()
    assert alice.get("k") == before
    assert alice.keys() == ["k"]
    assert [event.kind for event in alice.events(include_reads=True)] == ["set"]
    assert store.stats().versions == 1


def refused(argument, says, method, *arguments, **fields):
    with pytest.raises(Invalid) as error:
        method(*arguments, **fields)
    assert error.value.argument == argument
    assert argument in error.value.message
    assert says in error.value.message


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(("argument", "value", "says"), WRITES)
def test_a_write_that_is_not_allowed_is_refused(alice, argument, value, says):
    hand = Hand(alice.store, alice.caller, value) if argument == "namespace" else alice
    fields = VALID if argument == "namespace" else VALID | {argument: value}

    refused(argument, says, hand.set, **fields)


def nested(levels):
    inner: list = []
    for _ in range(levels - 2):
        inner = [inner]
    return {"a": inner}


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("levels", [33, 200, 900, 5000])
def test_metadata_nested_too_deeply_is_refused(alice, levels):
    refused("metadata", "32", alice.set, "k", "2", metadata=nested(levels))


def test_metadata_may_be_nested(alice):
    written = alice.set("k", metadata=nested(32), idempotency_key="once")

    assert alice.set("k", metadata=nested(32), idempotency_key="once") == written


@pytest.mark.usefixtures("unchanged")
def test_of_many_writes_a_fault_is_named_where_it_is(alice, store):
    writes = [alice.write("k", "x" * 16_385), alice.write("x" * 257)]
    outcomes = store.fact_set_many(alice.caller, writes)

    assert [outcome.problem.argument for outcome in outcomes] == ["value", "key"]


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("count", [0, 101])
def test_many_are_one_to_a_hundred(alice, store, count):
    writes = [alice.write(f"k{n}") for n in range(count)]

    refused("facts", "1 to 100", store.fact_set_many, alice.caller, writes)
    refused("keys", "1 to 100", store.fact_get_many, alice.caller, "default", ["k"] * count)


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(("key", "says"), name_faults(256))
def test_a_key_that_is_not_allowed_is_refused_by_every_method(alice, store, key, says):
    refused("key", says, alice.get, key)
    refused("key", says, alice.delete, key)
    refused("key", says, alice.restore, key, 1)
    refused("key", says, alice.events, key)
    refused("keys", says, store.fact_get_many, alice.caller, "default", ["k", key])


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(("namespace", "says"), name_faults(128))
def test_a_namespace_that_is_not_allowed_is_refused_by_every_method(store, caller, namespace, says):
    hand = Hand(store, caller, namespace)
    refused("namespace", says, hand.get, "k")
    refused("namespace", says, hand.delete, "k")
    refused("namespace", says, hand.restore, "k", 1)
    refused("namespace", says, hand.keys)
    refused("namespace", says, hand.search, "k")
    refused("namespace", says, hand.events)
    refused("namespace", says, store.stats, namespace)
    refused("namespace", says, store.fact_get_many, caller, namespace, ["k"])


SEARCHES = [
    *faults("query", [("", "empty"), ("x" * 16_385, "16,384"), (NUL, "NUL")]),
    *faults("top_k", [(0, "1 to 100"), (-1, "1 to 100"), (101, "1 to 100"), (10_000, "1 to 100")]),
    *faults("min_score", [(-0.1, "0 to 1"), (1.1, "0 to 1"), (float("nan"), "nan")]),
    *faults("prefix", text_faults(256)),
    *faults("tags", [(("",), "empty"), (("x" * 129,), "128")]),
]
FIELD = {"query": "text", "top_k": "limit"}


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(("argument", "value", "says"), SEARCHES)
def test_a_query_that_is_not_allowed_is_refused(alice, argument, value, says):
    fields = {"text": "k"} | {FIELD.get(argument, argument): value}

    refused(argument, says, alice.search, **fields)


@pytest.mark.usefixtures("unchanged")
def test_a_query_with_a_lone_surrogate_is_refused(alice):
    with pytest.raises(Invalid, match="surrogate") as error:
        alice.search(SURROGATE)
    assert error.value.argument in ("query", "text")


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("limit", [0, -1, 1001, 10**6])
def test_a_page_has_one_to_a_thousand_entries(alice, store, limit):
    refused("limit", "1 to 1,000", store.fact_list, alice.caller, "default", limit=limit)
    refused("limit", "1 to 1,000", store.event_list, "default", limit=limit)


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(("prefix", "says"), text_faults(256))
def test_a_prefix_that_is_not_allowed_is_refused(alice, prefix, says):
    refused("prefix", says, alice.keys, prefix=prefix)


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("version", [0, -1, 2**31, 2**63, 10**30])
def test_a_version_that_cannot_be_is_not_found(alice, version):
    with pytest.raises(NotFound):
        alice.restore("k", version)


@pytest.mark.parametrize("version", [0, -1, 2**31, 2**63, 10**30])
def test_there_is_no_fact_of_a_version_that_cannot_be(alice, version):
    alice.set("k")

    assert alice.get("k", at=version) is None


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("seconds", [-1, 61, float("nan")])
def test_the_lock_is_held_for_a_minute_at_most(store, seconds):
    refused("seconds", "0 to 60", store.lock_hold, seconds)


def test_the_longest_allowed_is_allowed(alice):
    key, value = "\U0001f44d" * 256, "\U0001f44d" * 16_384
    fact = alice.set(
        key,
        value,
        tags=tuple(f"{n:0>128}" for n in range(64)),
        metadata={"a": "x" * 16_300},
        idempotency_key="i" * 128,
        ttl_seconds=0.001,
    )

    assert (fact.value, fact.key) == (value, key)
    assert Hand(alice.store, alice.caller, "n" * 128).set("k").version == 1


def test_the_limits_can_be_set_and_count_characters(opened, reach, caller):
    alice = Hand(reach(opened(allowed=Limits(key=3, value=5))), caller)
    alice.set("ééé", "👍👍👍👍👍")

    refused("key", "at most 3", alice.set, "abcd")
    refused("value", "at most 5", alice.set, "abc", "123456")


def test_a_refusal_leaks_nothing_of_the_inside(alice):
    for method, arguments in (
        (alice.set, ("x" * 257,)),
        (alice.delete, ("absent",)),
        (alice.restore, ("absent", 3)),
    ):
        with pytest.raises((Invalid, NotFound)) as error:
            method(*arguments)
        assert not re.search(r"SELECT|sqlite|/|Traceback", error.value.message)
