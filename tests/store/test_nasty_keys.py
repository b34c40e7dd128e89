"""Ten thousand keys of what usually breaks are all found again, and never more than asked for."""

import random
import re
from bisect import bisect_left
from dataclasses import dataclass
from itertools import islice, takewhile

import pytest

from memory_store.contract import Caller
from memory_store.limits import MAX_MANY, Limits
from memory_store.words import index_words, query_words
from store.holders import HOLDERS, Hand

COUNT = 10_000
PAGE = 20
LONGEST = Limits().key
EVERY = {"sqlite": 1, "postgres": 5}
PARTS = [
    *["%", "_", "\\", "'", '"', "*", "(", ")", "%%", "_%", "\\'", "''", '""', "\\\\", "**", "()"],
    *[
        "NULL",
        "null",
        "None",
        "nil",
        "undefined",
        "NaN",
        "0",
        "-1",
        "false",
        "\\0",
        "%00",
        "\u2400",
    ],
    *["' OR 1=1 --", '"; DROP TABLE fact; --', "NEAR(a b)", "AND", "OR", "NOT", "ns : 1", "{x}"],
    *["שלום", "مرحبا", "\u202eabc\u202c", "\u200f", "אב%ג"],
    *["e\u0301", "é", "a\u0323\u0307", "ậ", "Z\u0351\u036b", "ﬁ", "ß", "SS", "İ", "ı"],
    *["🦉", "👩‍👩‍👧", "🇩🇪", "👍🏽", "❤️", "\U0001f9ff"],
    *["日本語", "데이터베이스", "ฐานข้อมูล", "备份"],
    *[
        " ",
        "\n",
        "\t",
        "\r\n",
        "\u00a0",
        "\u200b",
        "\ufeff",
        "\x01",
        "\x7f",
        "\ufffe",
        "\U0010ffff",
    ],
    *["config.prod.yaml", "foo::bar", "GB/s", "../..", "C++", "$HOME", "a", "B", "k1"],
]


def made_keys() -> list[str]:
    """In code-point order. Some are as long as can be, every other has a word of its own."""
    dice = random.Random(7)
    keys: dict[str, None] = {}
    while len(keys) < COUNT:
        parts = dice.choices(PARTS, k=dice.randint(1, 5))
        if len(keys) % 2:
            parts.insert(dice.randint(0, len(parts)), f" {word(len(keys))} ")
        key = "".join(parts)
        if dice.random() < 0.02:
            key = (key * LONGEST)[:LONGEST]
        keys[key[:LONGEST]] = None
    return sorted(keys)


def word(number: int) -> str:
    return f"needle{number}x"


KEYS = made_keys()


@dataclass(frozen=True)
class Nasty:
    """A store with such keys, in order, and who speaks to it."""

    hand: Hand
    keys: list[str]

    def beginning_with(self, prefix: str) -> list[str]:
        there = islice(self.keys, bisect_left(self.keys, prefix), None)
        return list(takewhile(lambda key: key.startswith(prefix), there))


@pytest.fixture(scope="module", params=HOLDERS)
def nasty(request, tmp_path_factory):
    """All keys on SQLite; where each call costs more, some of all kinds of them."""
    holder = HOLDERS[request.param]
    keys = KEYS[:: EVERY.get(request.param, 10)]
    backing = holder.opens(tmp_path_factory.mktemp("nasty"), log_reads=False)
    store = backing
    if holder.served:
        front, store = request.getfixturevalue("front")
        front.behind = backing
    hand = Hand(store, Caller(principal="p", source_client="c"))
    nasty = Nasty(hand, keys)
    for some in batches(nasty.keys):
        outcomes = store.fact_set_many(hand.caller, [hand.write(key, "") for key in some])
        assert [it.fact and (it.fact.key, it.fact.version) for it in outcomes] == [
            (key, 1) for key in some
        ]
    yield nasty
    backing.close()


def batches(keys):
    return [keys[start : start + MAX_MANY] for start in range(0, len(keys), MAX_MANY)]


def test_every_key_is_got_as_it_was_given(nasty):
    for some in batches(nasty.keys):
        facts = nasty.hand.store.fact_get_many(nasty.hand.caller, "default", some)
        assert [fact and fact.key for fact in facts] == some


def test_the_whole_list_is_every_key_once_in_order(nasty):
    assert nasty.hand.keys(limit=1000) == nasty.keys


def test_a_prefix_finds_what_begins_with_it_and_no_more(nasty):
    dice = random.Random(8)
    for number, key in enumerate(nasty.keys):
        prefix = key[: dice.randint(1, len(key))] if number % 4 == 0 else key
        page = nasty.hand.store.fact_list(nasty.hand.caller, "default", prefix, limit=PAGE)
        assert [fact.key for fact in page.facts] == nasty.beginning_with(prefix)[:PAGE]
        assert prefix != key or page.facts[0].key == key


def test_a_key_with_a_word_of_its_own_is_found_by_it_alone(nasty):
    own = {key: re.findall(r"needle\d+x", key) for key in nasty.keys}
    once = {key: words[0] for key, words in own.items() if len(words) == 1}
    assert len(once) > len(nasty.keys) / 3
    for key, needle in once.items():
        assert nasty.hand.found(needle, limit=100) == [key]


def test_a_key_is_found_by_the_whole_of_it_and_nothing_that_shares_no_word_with_it(nasty):
    for key in nasty.keys:
        if "needle" not in key:
            asked = query_words(key)
            found = nasty.hand.found(key, prefix=key, limit=100)
            assert (key in found) == bool(asked)
            for other in found:
                assert other.startswith(key)
                assert any(is_in(word, index_words(other)) for word in asked)


def is_in(asked, words):
    if asked.endswith("*"):
        return any(word.startswith(asked[:-1]) for word in words)
    return asked in words
