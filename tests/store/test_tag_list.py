"""The list of tags, which completes them."""

import pytest

from memory_store.contract import Invalid
from store.holders import Hand


def test_tags_are_listed_by_prefix_each_once(alice, store, clock):
    alice.set("a", tags=("deploy", "db", "é"))
    alice.set("b", tags=("deploy", "design"))
    alice.set("c", tags=("brief",), ttl_seconds=60)
    Hand(store, alice.caller, "home").set("a", tags=("dinner",))
    clock.advance(61)

    assert store.tag_list("default") == ["db", "deploy", "design", "é"]
    assert store.tag_list("default", "de") == ["deploy", "design"]
    assert store.tag_list("default", limit=1) == ["db"]
    assert store.tag_list("nowhere") == store.tag_list("default", "%") == []


def test_a_tag_is_listed_as_long_as_a_fact_has_it(alice, store):
    alice.set("a", tags=("t",))
    alice.set("a", tags=("u",))
    assert store.tag_list("default") == ["u"]
    alice.delete("a")
    assert store.tag_list("default") == []


@pytest.mark.parametrize("prefix", ["_", "%", "'", "\U0010ffff", "日本"])
def test_a_prefix_of_tags_is_taken_as_it_is(alice, store, prefix):
    alice.set("a", tags=("x", f"{prefix}y", prefix))
    assert store.tag_list("default", prefix) == [prefix, f"{prefix}y"]


def test_how_many_tags_are_listed_is_bounded(store):
    for limit in (0, 1001):
        with pytest.raises(Invalid):
            store.tag_list("default", limit=limit)
