"""Whatever is done in whatever order, every holder answers as a plain program would."""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from memory_store import upkeep
from memory_store.clock import moment
from memory_store.contract import (
    Caller,
    Change,
    FactWrite,
    ModelIdentity,
    SearchQuery,
    Store,
    StoreError,
    SubjectVectors,
)
from memory_store.store import SqlStore
from store.holders import HOLDERS, Clock, Hand
from store.model import Model, Refused, Version

EXAMPLES = {"sqlite": 40, "http": 20}
OTHER_EXAMPLES = 12
STEPS = 50
CALLERS = [Caller(principal=f"token:{name}", source_client=name) for name in ("alice", "bob")]
NAMESPACES = ["default", "Default", "é%_'"]
TAGS = ["t", "T", "t%", "t'", "\U0010ffff"]
WORDS = ["zebra", "quokka", "备份", "config.prod.yaml"]
IDENTITY = ModelIdentity(name="m", digest="d" * 64, dimension=2)
VECTOR = b"\0\0\x80\x3f\0\0\0\0"
ALPHABET = [
    *"ab%_'\"\\/*?[]():;-. \n\t\r",
    *["é", "e\u0301", "ß", "İ", "ﬁ", "日", "한", "ไ", "ا", "\u200b", "\u202e", "\ufeff"],
    *["👍", "👩‍👩‍👧", "🇩🇪", "\x01", "\x7f", "\x80", "\ud7ff", "\ue000", "\ufffe", "\uffff"],
    *["\U00010000", "\U0010fffe", "\U0010ffff", "NOT ", "AND", "NEAR(", "--", "; DROP TABLE fact;"],
]

nasty = st.lists(st.sampled_from(ALPHABET), max_size=4).map("".join)
namespaces = st.sampled_from(["default", *NAMESPACES])
callers = st.sampled_from(CALLERS)
keys = st.sampled_from(["k", "k%", "K", "e\u0301", "é"])
owners = st.sampled_from(["one", "two"])
tags = st.lists(st.sampled_from(TAGS), max_size=2, unique=True).map(tuple)
metadata = st.sampled_from([{}, {"a": [1, 2.5, None, {"ü": True}]}, {"'": "--"}])
once = st.sampled_from([None] * 6 + ["first", "second"])
values = st.tuples(nasty, st.sampled_from([*WORDS, ""]), nasty).map(" ".join)
conditions = st.one_of(
    st.just({}),
    st.just({"require_absent": True}),
    st.integers(0, 4).map(lambda version: {"expected_version": version}),
    st.just({"expected_value": None}),
    nasty.map(lambda value: {"expected_value": value}),
)


class Walk(RuleBasedStateMachine):
    """A store and its model, side by side. `reach` gives what is spoken to instead of the store."""

    taken = Bundle("taken")

    def __init__(self, opens: Callable[..., SqlStore], reach: Callable[[SqlStore], Store]) -> None:
        super().__init__()
        self.clock = Clock()
        self.model = Model(self.clock)
        self.folder = tempfile.TemporaryDirectory()
        self.backing = opens(Path(self.folder.name), clock=self.clock, log_reads=False)
        self.store = reach(self.backing)

    def teardown(self) -> None:
        try:
            self.the_trail_is_complete()
        finally:
            self.backing.close()
            self.folder.cleanup()

    def same(self, ask: Callable[[], Any], expect: Callable[[], Any]) -> None:
        """Both give the same answer, or are refused alike."""
        expected, refused = outcome(expect)
        answer, error = outcome(ask)
        assert (error and (error.code, error.current)) == (
            refused and (refused.code, refused.current)
        )
        assert answer == expected

    def write(self, namespace: str, key: str, condition: dict[str, Any], **fields: Any):
        """A condition on `expected_value: None` means the value that the key holds."""
        if condition == {"expected_value": None}:
            fact = self.model.history(namespace, key).fact
            condition = {"expected_value": fact.value if fact else ""}
        return FactWrite(namespace=namespace, key=key, **condition, **fields)

    @initialize()
    def a_model_is_in_use(self):
        assert self.store.model_use(IDENTITY) == 0

    @rule(
        caller=callers,
        namespace=namespaces,
        key=keys,
        condition=conditions,
        value=values,
        tags=st.none() | tags,
        metadata=st.none() | metadata,
        ttl_seconds=st.sampled_from([None, 0.5, 60.0]),
        idempotency_key=once,
    )
    def set(self, caller, namespace, key, condition, **fields):
        write = self.write(namespace, key, condition, **fields)
        self.same(lambda: self.store.fact_set(caller, write), lambda: self.model.set(caller, write))

    @rule(caller=callers, namespace=namespaces, some=st.lists(keys, min_size=1, max_size=4))
    def set_many(self, caller, namespace, some):
        writes = [
            FactWrite(namespace=namespace, key=key, value=key, require_absent=not number % 2)
            for number, key in enumerate(some)
        ]
        outcomes = self.store.fact_set_many(caller, writes)
        for write, found in zip(writes, outcomes, strict=True):
            fact, refused = outcome(partial(self.model.set, caller, write))
            problem = found.problem and (found.problem.code, found.problem.current)
            assert (found.fact, problem) == (fact, refused and (refused.code, refused.current))

    @rule(
        caller=callers,
        namespace=namespaces,
        key=keys,
        version=st.none() | st.integers(1, 4),
        once=once,
    )
    def delete(self, caller, namespace, key, version, once):
        self.same(
            lambda: self.store.fact_delete(caller, namespace, key, version, once),
            lambda: self.model.delete(caller, namespace, key, version, once),
        )

    @rule(caller=callers, namespace=namespaces, key=keys, version=st.integers(0, 4))
    def restore(self, caller, namespace, key, version):
        self.same(
            lambda: self.store.fact_restore(caller, namespace, key, version),
            lambda: self.model.restore(caller, namespace, key, version),
        )

    @rule(seconds=st.sampled_from([0.5, 60.0, 86_400.0]))
    def time_passes(self, seconds):
        self.model.advance(seconds)

    @rule()
    def what_expired_is_swept(self):
        upkeep.sweep(self.backing.engine, self.clock())

    @rule(namespace=namespaces, name=namespaces)
    def rename(self, namespace, name):
        self.same(
            lambda: self.store.namespace_rename(CALLERS[0], namespace, name).facts,
            lambda: self.model.rename(namespace, name),
        )

    @rule(namespace=namespaces, wrong=st.sampled_from([0, 0, 1]))
    def empty(self, namespace, wrong):
        expected = len(self.model.facts(namespace)) + wrong
        self.same(
            lambda: self.store.namespace_delete(CALLERS[0], namespace, expected),
            lambda: self.model.empty(namespace, expected),
        )

    @rule(namespace=namespaces, key=keys, number=st.integers(0, 5))
    def get_version(self, namespace, key, number):
        version = self.model.history(namespace, key).version(number)
        assert self.store.fact_get(CALLERS[0], namespace, key, number) == (version and version.fact)

    @rule(namespace=namespaces, key=keys, back=st.sampled_from([0, 1, 500, 60_000, 86_400_000]))
    def get_at_a_time(self, namespace, key, back):
        time = self.clock() - back
        assert self.store.fact_get(CALLERS[0], namespace, key, moment(time)) == self.model.history(
            namespace, key
        ).at(time)

    @rule(namespace=namespaces, some=st.lists(keys, min_size=1, max_size=5))
    def get_many(self, namespace, some):
        facts = self.model.facts(namespace)
        expected = [facts.get(key) for key in some]
        assert self.store.fact_get_many(CALLERS[0], namespace, some) == expected

    @rule(
        namespace=namespaces, prefix=st.just("") | nasty | keys, tags=tags, size=st.integers(1, 4)
    )
    def list(self, namespace, prefix, tags, size):
        hand = Hand(self.store, CALLERS[0], namespace)
        assert hand.keys(prefix=prefix, tags=tags, limit=size) == [
            key
            for key, fact in self.model.facts(namespace).items()
            if key.startswith(prefix) and set(tags) <= set(fact.tags)
        ]

    @rule(namespace=namespaces, word=st.sampled_from(WORDS), prefix=st.just("") | keys, tags=tags)
    def search(self, namespace, word, prefix, tags):
        query = SearchQuery(namespace=namespace, text=word, prefix=prefix, tags=tags, limit=100)
        hits = self.store.fact_search(CALLERS[0], query).hits
        assert {hit.fact.key: hit.fact for hit in hits} == {
            key: fact
            for key, fact in self.model.facts(namespace).items()
            if word in fact.value and key.startswith(prefix) and set(tags) <= set(fact.tags)
        }

    @rule(
        target=taken,
        owner=owners,
        limit=st.integers(1, 4),
        seconds=st.sampled_from([0.0, 60.0]),
    )
    def take(self, owner, limit, seconds):
        upkeep.sweep(self.backing.engine, self.clock())
        changes = self.store.change_take(owner, IDENTITY.id, limit, seconds)
        versions = self.model.take(owner, limit, seconds)
        assert [(change.version, change.text) for change in changes] == [
            (version.fact.version, self.model.text(version)) for version in versions
        ]
        return multiple(*((owner, *pair) for pair in zip(changes, versions, strict=True)))

    @rule(taking=taken, windows=st.integers(1, 3))
    def put(self, taking: tuple[str, Change, Version], windows):
        owner, change, version = taking
        vectors = SubjectVectors(
            sequence=change.sequence,
            subject=change.subject,
            version=change.version,
            windows=(VECTOR,) * windows,
        )
        taken = self.store.vector_put(owner, IDENTITY.id, [vectors])
        assert taken == self.model.put_vectors(version)

    @rule(taking=taken)
    def fail(self, taking: tuple[str, Change, Version]):
        owner, change, version = taking
        self.store.change_fail(owner, change.sequence, "why")
        self.model.fail(owner, version)

    @rule(owner=owners)
    def release(self, owner):
        assert self.store.change_release(owner) == self.model.release(owner)

    @invariant()
    def all_that_is_there_is_the_same(self):
        for namespace in NAMESPACES:
            page = self.store.fact_list(CALLERS[0], namespace, limit=1000)
            assert list(page.facts) == list(self.model.facts(namespace).values())

    def the_trail_is_complete(self):
        upkeep.sweep(self.backing.engine, self.clock())
        for namespace, space in self.model.spaces.items():
            hand = Hand(self.store, CALLERS[0], namespace)
            for key, history in space.items():
                assert [what for _, *what in history.events] == [
                    [event.kind, event.version, event.value_before, event.value_after]
                    for event in reversed(hand.events(key))
                ]
        held = [(it.name, it.facts) for it in self.store.namespace_list()]
        facts = {name: len(self.model.facts(name)) for name in sorted(self.model.spaces)}
        assert held == [(name, count) for name, count in facts.items() if count]
        stats = self.store.stats()
        assert stats.facts == sum(facts.values())
        assert stats.versions == sum(len(history.versions) for history in self.model._histories())


def outcome(call: Callable[[], Any]) -> tuple[Any, StoreError | Refused | None]:
    try:
        return call(), None
    except (StoreError, Refused) as error:
        return None, error


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", HOLDERS)
def test_any_walk_over_a_store_is_a_walk_over_a_dictionary(name, request):
    holder = HOLDERS[name]

    def reach(backing: SqlStore) -> Store:
        if not holder.served:
            return backing
        front, client = request.getfixturevalue("front")
        front.behind = backing
        return client

    run_state_machine_as_test(
        partial(Walk, holder.opens, reach),
        settings=settings(
            max_examples=EXAMPLES.get(name, OTHER_EXAMPLES),
            stateful_step_count=STEPS,
            derandomize=True,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],  # each step is real work: shrinking would take minutes
        ),
    )
