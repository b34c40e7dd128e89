"""Lists of facts: exact prefixes, an order, and pages that stand still while others write."""

import base64
import json
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory_store.contract import Invalid
from store.holders import Hand

KEYS = [
    *["a", "a%", "a%b", "a_", "a_b", "ab", "aB", "A", "a'b", 'a"b', "a\\b", "a\nb", "a*", "a?[b"],
    *["a/b", "a/b/c", "a/", "b", "\x01", "\x7f", " a", "a ", "ä", "a\u0308", "é", "\u07ff\u0800"],
    *["\ud7ff", "\ue000", "\uffff", "\U00010000", "👍", "👍🏽", "👍🏽x", "\U0010ffff"],
    *["\U0010ffff\U0010ffff", "x\U0010ffff", "x\U0010ffffy", "y", "x\ud7ff", "x\ue000", "--;"],
]
PREFIXES = ["", *KEYS, "x", "a\u0308\u0308", "nothing", "\U0010ffff" * 3, "\U0010fffe"]


@pytest.fixture
def shelf(alice):
    writes = [alice.write(key, tags=("odd",) if len(key) % 2 else ()) for key in KEYS]
    alice.store.fact_set_many(alice.caller, writes)
    return alice


def test_keys_are_listed_in_the_order_of_their_code_points(shelf):
    assert shelf.keys(limit=1000) == sorted(KEYS)


def test_a_prefix_lists_what_begins_with_it_and_nothing_else(shelf):
    found = {prefix: shelf.keys(prefix=prefix) for prefix in PREFIXES}

    assert found == {
        prefix: sorted(key for key in KEYS if key.startswith(prefix)) for prefix in PREFIXES
    }


@pytest.mark.parametrize("limit", [1, 2, 7, len(KEYS) - 1, len(KEYS), 1000])
def test_pages_of_any_size_make_the_same_list(shelf, limit):
    assert shelf.keys(limit=limit) == sorted(KEYS)
    assert shelf.keys(limit=limit, prefix="a") == sorted(key for key in KEYS if key[0] == "a")


def test_tags_and_a_prefix_filter_together(shelf):
    expected = sorted(key for key in KEYS if len(key) % 2 and key.startswith("a"))

    assert shelf.keys(prefix="a", tags=["odd"], limit=2) == expected


def test_a_fact_needs_all_the_tags(alice):
    alice.set("both", tags=("x%", "y'"))
    alice.set("one", tags=("x%",))
    alice.set("other", tags=("X%", "x_", "x"))

    assert alice.keys(tags=["x%"]) == ["both", "one"]
    assert alice.keys(tags=["y'", "x%", "x%"]) == ["both"]
    assert alice.keys(tags=["x%", "none"]) == []


def test_the_whole_fact_is_listed(alice, store):
    fact = alice.set("k", "v", tags=("t",), metadata={"x": 1})

    page = store.fact_list(alice.caller, "default")
    assert (page.facts, page.next_cursor) == ((fact,), None)


def test_a_list_repeats_nothing_and_misses_nothing_while_others_write(alice, bob, store):
    stays = [f"k{number:03}" for number in range(0, 100, 2)]
    for key in stays:
        alice.set(key)
    seen, cursor = [], None
    for turn in range(200):
        page = store.fact_list(alice.caller, "default", limit=3, cursor=cursor)
        seen += [fact.key for fact in page.facts]
        cursor = page.next_cursor
        if cursor is None:
            break
        bob.set(f"k{turn * 5 % 100 + 1:03}")
        bob.set(stays[turn % len(stays)], f"changed in turn {turn}")
        bob.set(f"gone{turn}")
        bob.delete(f"gone{turn}")
        if turn % 2:
            bob.delete(f"k{turn * 5 % 100 + 1:03}")

    assert cursor is None
    assert seen == sorted(set(seen))
    assert set(stays) <= set(seen)


def test_a_page_goes_on_after_the_fact_it_ended_with_was_deleted(alice, store):
    for key in "abcd":
        alice.set(key)
    page = store.fact_list(alice.caller, "default", limit=2)
    alice.delete("b")
    alice.delete("c")
    rest = store.fact_list(alice.caller, "default", limit=2, cursor=page.next_cursor)

    assert [fact.key for fact in rest.facts] == ["d"]


def encoded(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


BROKEN = [
    *["", "x", "====", "!", "ü", "a b", "null", "0", "\n", "\0", "\U0010ffff", "A" * 100_000],
    *[encoded(it) for it in (None, [], {}, 5, "text", ["a"], ["a", "b"], ["a", "b", "c"])],
    base64.urlsafe_b64encode(b"[" * 50_000).decode(),
    base64.urlsafe_b64encode(b"\xff\xfe").decode(),
]


@pytest.mark.parametrize("cursor", BROKEN, ids=range(len(BROKEN)))
def test_a_broken_cursor_is_refused(alice, store, cursor):
    for method, arguments in (
        (store.fact_list, (alice.caller, "default")),
        (store.event_list, ("default",)),
    ):
        with pytest.raises(Invalid) as refused:
            method(*arguments, cursor=cursor)
        assert refused.value.argument == "cursor"


@settings(
    derandomize=True,
    deadline=None,
    max_examples=30,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(place=st.integers() | st.text(st.characters()) | st.booleans() | st.floats() | st.none())
def test_a_cursor_that_was_tampered_with_is_no_fault_of_the_store(alice, store, place):
    for key in "ab":
        alice.set(key)
    for method, arguments in (
        (store.fact_list, (alice.caller, "default")),
        (store.event_list, ("default",)),
    ):
        cursor = method(*arguments, limit=1).next_cursor
        of_list, _ = json.loads(base64.urlsafe_b64decode(cursor + "=="))
        try:
            method(*arguments, cursor=encoded([of_list, place]))
        except Invalid as refused:
            assert refused.argument == "cursor"  # noqa: PT017 - it may also be accepted


def test_a_cursor_is_good_for_its_own_list_only(store, caller):
    home, work = Hand(store, caller, "home"), Hand(store, caller, "work")
    for key in ("a1", "a2", "b"):
        home.set(key, tags=("t",))
        work.set(key, tags=("t",))
    cursor = store.fact_list(caller, "home", prefix="a", limit=1).next_cursor
    events = store.event_list("home", limit=1).next_cursor

    for others in (
        {"namespace": "work", "prefix": "a"},
        {"namespace": "home", "prefix": ""},
        {"namespace": "home", "prefix": "a", "tags": ["t"]},
    ):
        with pytest.raises(Invalid, match="other arguments"):
            store.fact_list(caller, **others, cursor=cursor)
    with pytest.raises(Invalid):
        store.fact_list(caller, "home", cursor=events)
    with pytest.raises(Invalid):
        store.event_list("home", cursor=cursor)
    with pytest.raises(Invalid):
        store.event_list("home", "a1", cursor=events)
    with pytest.raises(Invalid):
        store.event_list("home", include_reads=True, cursor=events)
    assert [it.key for it in store.fact_list(caller, "home", "a", cursor=cursor).facts] == ["a2"]


def test_the_last_code_point_ends_no_list(alice):
    last = chr(sys.maxunicode)
    for key in (last, last * 2, last * 256):
        alice.set(key)

    assert alice.keys(prefix=last * 2) == [last * 2, last * 256]
