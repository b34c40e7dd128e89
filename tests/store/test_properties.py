"""Any sequence of operations does what a plain dictionary would do."""

import bisect
import random
from dataclasses import dataclass, field

import pytest

from memory_store.contract import Conflict, NotFound
from store.holders import Hand

SEEDS = range(12)
STEPS = 120
ALPHABET = [
    *"ab%_'\"\\/*?[]():;-. \n\t\r",
    *["é", "e\u0301", "ß", "İ", "ﬁ", "日", "한", "ไ", "ا", "\u200b", "\u202e", "\ufeff"],
    *["👍", "👩‍👩‍👧", "🇩🇪", "\x01", "\x7f", "\x80", "\ud7ff", "\ue000", "\ufffe", "\uffff"],
    *["\U00010000", "\U0010fffe", "\U0010ffff", "NOT ", "AND", "NEAR(", "--", "; DROP TABLE fact;"],
]
TAGS = ["t", "T", "t%", "t'", "\U0010ffff"]


@dataclass
class Model:
    """The store as a dictionary: what is there now, and every version there ever was."""

    now: dict[str, tuple[str, int, tuple[str, ...]]] = field(default_factory=dict)
    versions: dict[str, list[tuple[str, tuple[str, ...]]]] = field(default_factory=dict)
    events: list[tuple[str, str, int | None]] = field(default_factory=list)

    def write(self, kind, key, value, tags):
        if tags is None:
            tags = self.now[key][2] if key in self.now else ()
        versions = self.versions.setdefault(key, [])
        versions.append((value, tags))
        self.now[key] = (value, len(versions), tags)
        self.events.append((kind, key, len(versions)))

    def holds(self, key, condition):
        value, version, _ = self.now.get(key, (None, 0, ()))
        if condition.get("require_absent"):
            return key not in self.now
        if "expected_version" in condition:
            return version == condition["expected_version"]
        return "expected_value" not in condition or value == condition["expected_value"]

    def refuse(self, key):
        self.events.append(("conflict", key, self.now[key][1] if key in self.now else None))

    def delete(self, key):
        self.events.append(("delete", key, self.now.pop(key)[1]))


class Walk:
    """A seeded walk over a store and its model, compared after every step."""

    def __init__(self, hand: Hand, seed: int) -> None:
        self.hand = hand
        self.model = Model()
        self.random = random.Random(seed)
        self.keys = sorted({self.text(6) or "k" for _ in range(10)})

    def text(self, most):
        return "".join(self.random.choices(ALPHABET, k=self.random.randint(0, most)))

    def key(self):
        return self.random.choice(self.keys)

    def condition(self, key):
        value, version, _ = self.model.now.get(key, ("", 0, ()))
        near = self.random.choice([-1, 0, 0, 1])
        return self.random.choice(
            [
                {},
                {},
                {"require_absent": True},
                {"expected_version": max(0, version + near)},
                {"expected_value": value if near == 0 else self.text(3)},
            ]
        )

    def set(self):
        key, value = self.key(), self.text(30)
        tags = self.random.choice([None, None, (), tuple(self.random.sample(TAGS, 2))])
        condition = self.condition(key)
        if self.model.holds(key, condition):
            fact = self.hand.set(key, value, tags=tags, **condition)
            self.model.write("set", key, value, tags)
            assert (fact.value, fact.version, fact.tags) == self.model.now[key]
        else:
            with pytest.raises(Conflict) as conflict:
                self.hand.set(key, value, tags=tags, **condition)
            self.model.refuse(key)
            winner = conflict.value.current
            expected = self.model.now.get(key)
            assert (winner and (winner.value, winner.version, winner.tags)) == expected

    def delete(self):
        key = self.key()
        version = self.random.choice([None, None, 1, 2, 3])
        if key not in self.model.now:
            with pytest.raises(NotFound):
                self.hand.delete(key, expected_version=version)
        elif version in (None, self.model.now[key][1]):
            fact = self.hand.delete(key, expected_version=version)
            assert (fact.value, fact.version, fact.tags) == self.model.now[key]
            self.model.delete(key)
        else:
            with pytest.raises(Conflict):
                self.hand.delete(key, expected_version=version)
            self.model.refuse(key)

    def restore(self):
        key = self.key()
        versions = self.model.versions.get(key, [])
        number = self.random.randint(0, len(versions) + 1)
        if 1 <= number <= len(versions):
            self.hand.restore(key, number)
            self.model.write("restore", key, *versions[number - 1])
        else:
            with pytest.raises(NotFound):
                self.hand.restore(key, number)

    def get(self):
        key = self.key()
        fact = self.hand.get(key)
        expected = self.model.now.get(key)
        assert (fact and (fact.value, fact.version, fact.tags)) == expected

    def get_version(self):
        key = self.key()
        versions = self.model.versions.get(key, [])
        number = self.random.randint(0, len(versions) + 1)
        fact = self.hand.get(key, at=number)
        expected = versions[number - 1] if 1 <= number <= len(versions) else None
        assert (fact and (fact.value, fact.tags)) == expected

    def list(self):
        prefix = self.random.choice(["", self.text(2), self.key()[:1], self.key()])
        tags = self.random.choice([[], [], self.random.sample(TAGS, 1)])
        found = self.hand.keys(prefix=prefix, tags=tags, limit=self.random.randint(1, 7))
        assert found == [
            key
            for key in sorted(self.model.now)
            if key.startswith(prefix) and set(tags) <= set(self.model.now[key][2])
        ]

    def search(self):
        """A word that only one value has is found where it is, and nowhere else."""
        key, word = self.key(), f"needle{self.random.randrange(10**9)}"
        self.hand.set(key, word)
        self.model.write("set", key, word, None)
        assert self.hand.found(word) == [key]
        self.hand.set(key, "hay")
        self.model.write("set", key, "hay", None)
        assert self.hand.found(word) == []

    def page_on(self):
        """A page that begins after any place has what comes after it."""
        keys = sorted(self.model.now)
        if len(keys) < 2:
            return
        store, caller = self.hand.store, self.hand.caller
        size = self.random.randint(1, len(keys) - 1)
        page = store.fact_list(caller, "default", limit=size)
        rest = store.fact_list(caller, "default", limit=1000, cursor=page.next_cursor)
        assert [fact.key for fact in rest.facts] == keys[bisect.bisect(keys, keys[size - 1]) :]

    def step(self):
        steps = [self.set, self.delete, self.restore, self.get, self.get_version, self.list]
        others = [self.search, self.page_on]
        self.random.choices([*steps, *others], weights=[6, 3, 2, 2, 2, 2, 1, 1])[0]()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_walk_over_the_store_is_a_walk_over_a_dictionary(alice, seed):
    walk = Walk(alice, seed)
    for _ in range(STEPS):
        walk.step()

    assert alice.keys(limit=1000) == sorted(walk.model.now)
    assert [(event.kind, event.key, event.version) for event in reversed(alice.events())] == (
        walk.model.events
    )
    stats = alice.store.stats()
    assert stats.facts == len(walk.model.now)
    assert stats.versions == sum(map(len, walk.model.versions.values()))
