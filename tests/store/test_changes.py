"""What awaits an embedding: leased, taken over, set aside, and never mixed between models."""

from array import array
from concurrent.futures import ThreadPoolExecutor

import pytest

from fakes import FakeEmbedder
from memory_store.contract import Invalid, ModelIdentity, SubjectVectors
from store.holders import Meaning

OLD = ModelIdentity(name="old", digest="0" * 64, dimension=4)
NEW = ModelIdentity(name="new", digest="1" * 64, dimension=4)
LEASE = 30


def vectors(change, *firsts):
    """A window for each of `firsts`, which is how far it points along the first axis."""
    windows = tuple(array("f", [first, (1 - first**2) ** 0.5, 0, 0]).tobytes() for first in firsts)
    return SubjectVectors(
        sequence=change.sequence, subject=change.subject, version=change.version, windows=windows
    )


@pytest.fixture
def in_use(store):
    store.model_use(OLD)
    return OLD.id


def states(hand):
    page = hand.store.fact_list(hand.caller, hand.namespace)
    return {fact.key: fact.index for fact in page.facts}


def test_a_written_fact_waits_until_its_vectors_are_there(alice, store, in_use):
    assert alice.set("deploy/port", "5432").index == "pending"
    (change,) = store.change_take("worker", in_use)

    assert change.version == 1
    assert "deploy/port" in change.text
    assert "5432" in change.text
    assert store.vector_put("worker", in_use, [vectors(change, 1)]) == 1
    assert alice.get("deploy/port").index == "ready"
    assert store.change_take("worker", in_use) == []
    assert (store.stats().embedded, store.stats().backlog.pending) == (1, 0)


def test_changes_are_taken_oldest_first_and_no_more_than_asked_for(alice, store, in_use):
    for number in range(5):
        alice.set(f"k{number}", f"text {number}")

    first = store.change_take("worker", in_use, limit=3)
    second = store.change_take("worker", in_use, limit=3)
    assert [change.text[-1] for change in [*first, *second]] == ["0", "1", "2", "3", "4"]
    sequences = [change.sequence for change in [*first, *second]]
    assert sequences == sorted(set(sequences))


def test_a_leased_change_is_nobody_elses_until_the_lease_runs_out(alice, store, in_use, clock):
    alice.set("k")
    (change,) = store.change_take("one", in_use, lease_seconds=LEASE)
    clock.advance(LEASE - 0.001)
    assert store.change_take("other", in_use) == []
    clock.advance(0.001)

    assert store.change_take("other", in_use) == [change]


def test_no_change_is_leased_to_two_workers_at_once(alice, store, in_use):
    for number in range(100):
        alice.set(f"k{number}")
    with ThreadPoolExecutor(8) as threads:
        taken = threads.map(lambda n: store.change_take(f"w{n}", in_use, limit=10), range(12))
        sequences = [change.sequence for changes in taken for change in changes]

    assert len(sequences) == len(set(sequences)) == 100


def test_a_released_change_is_free_at_once(alice, store, in_use):
    for key in "ab":
        alice.set(key)
    store.change_take("one", in_use)

    assert store.change_release("other") == 0
    assert store.change_release("one") == 2
    assert len(store.change_take("other", in_use)) == 2


def test_releasing_is_no_failed_try(alice, store, in_use):
    alice.set("k")
    for _ in range(10):
        assert len(store.change_take("one", in_use)) == 1
        store.change_release("one")

    assert store.stats().backlog.failed == 0


def test_after_five_failures_a_change_is_set_aside_with_the_reason(alice, store, in_use):
    alice.set("bad")
    alice.set("good")
    for number in range(5):
        taken = {change.text[:3]: change for change in store.change_take("worker", in_use)}
        store.change_fail("worker", taken["bad"].sequence, f"reason {number}")
        store.change_release("worker")
    (good,) = store.change_take("worker", in_use)

    backlog = store.stats().backlog
    assert (backlog.pending, backlog.failed, backlog.failure) == (1, 1, "reason 4")
    assert states(alice) == {"bad": "failed", "good": "pending"}
    assert good.text.startswith("good")


def test_a_text_that_ends_its_workers_is_set_aside_too(alice, store, in_use, clock):
    alice.set("k")
    takes = 0
    while store.change_take("worker", in_use, lease_seconds=LEASE):
        takes += 1
        assert takes < 10
        clock.advance(LEASE)

    assert takes == 5
    assert states(alice) == {"k": "failed"}
    assert "stopped" in store.stats().backlog.failure


def test_only_who_holds_the_lease_can_fail_it(alice, store, in_use, clock):
    alice.set("k")
    (change,) = store.change_take("late", in_use, lease_seconds=LEASE)
    clock.advance(LEASE)
    store.change_take("now", in_use)
    for _ in range(9):
        store.change_fail("late", change.sequence, "not mine any more")

    assert store.stats().backlog.failed == 0
    assert store.change_take("third", in_use) == []


def test_a_fact_that_was_set_aside_is_tried_again_once_it_is_written_anew(alice, store, in_use):
    alice.set("k", "1")
    for _ in range(5):
        (change,) = store.change_take("worker", in_use)
        store.change_fail("worker", change.sequence, "no")
    assert store.change_take("worker", in_use) == []
    alice.set("k", "2")

    (change,) = store.change_take("worker", in_use)
    assert (change.version, store.stats().backlog.failed) == (2, 0)


def test_using_the_model_again_tries_what_was_set_aside_and_queues_nothing_twice(
    alice, store, in_use
):
    alice.set("done")
    store.vector_put("w", in_use, [vectors(*store.change_take("w", in_use), 1)])
    alice.set("bad")
    alice.set("waiting")
    for _ in range(5):
        bad, *_ = store.change_take("w", in_use)
        store.change_fail("w", bad.sequence, "no")
        store.change_release("w")

    assert store.model_use(OLD) == 2
    assert store.model_use(OLD) == 2
    assert [it.text.split(":")[0] for it in store.change_take("w", in_use)] == ["bad", "waiting"]


def test_an_update_replaces_what_was_waiting(alice, store, in_use):
    alice.set("k", "old text")
    store.change_take("worker", in_use)
    alice.set("k", "new text")
    (change,) = store.change_take("worker", in_use)

    assert (change.version, "new text" in change.text) == (2, True)
    assert store.change_take("worker", in_use) == []


def test_vectors_of_an_older_version_are_dropped(alice, store, in_use):
    alice.set("k", "1")
    (old,) = store.change_take("slow", in_use)
    alice.set("k", "2")
    (new,) = store.change_take("quick", in_use)
    assert store.vector_put("quick", in_use, [vectors(new, 1)]) == 1

    assert store.vector_put("slow", in_use, [vectors(old, 0)]) == 0
    hits = alice.search("?", vector=vectors(new, 1).windows[0], model=in_use).hits
    assert [round(hit.cosine, 3) for hit in hits] == [1]


def test_older_vectors_that_come_first_do_not_end_the_newer_change(alice, store, in_use):
    alice.set("k", "1")
    (old,) = store.change_take("slow", in_use)
    alice.set("k", "2")

    assert store.vector_put("slow", in_use, [vectors(old, 0)]) == 0
    assert [change.version for change in store.change_take("other", in_use)] == [2]
    assert states(alice) == {"k": "pending"}


@pytest.mark.parametrize("again", [False, True])
def test_vectors_of_a_deleted_fact_are_dropped(alice, store, in_use, again):
    alice.set("k", "1")
    (change,) = store.change_take("worker", in_use)
    alice.delete("k")
    if again:
        alice.set("k", "1")

    assert store.vector_put("worker", in_use, [vectors(change, 1)]) == 0
    assert store.stats().embedded == 0


def test_of_several_vectors_the_good_ones_are_taken(alice, store, in_use):
    for key in "abc":
        alice.set(key)
    a, b, c = store.change_take("worker", in_use)
    alice.set("b", "changed meanwhile")

    assert store.vector_put("worker", in_use, [vectors(it, 1) for it in (a, b, c)]) == 2
    assert states(alice) == {"a": "ready", "b": "pending", "c": "ready"}


@pytest.mark.parametrize("size", [0, 3, 5, 15, 17, 32])
def test_a_vector_of_a_wrong_size_is_refused(alice, store, in_use, size):
    alice.set("a")
    alice.set("b")
    first, second = store.change_take("worker", in_use)
    wrong = vectors(second, 1).model_copy(update={"windows": (bytes(16), bytes(size))})
    with pytest.raises(Invalid, match=r"16") as refused:
        store.vector_put("worker", in_use, [vectors(first, 1), wrong])

    assert refused.value.argument == "windows"
    assert store.stats().embedded == 0
    with pytest.raises(Invalid) as refused:
        alice.search("a", vector=bytes(size), model=in_use)
    assert refused.value.argument == "vector"


def test_there_is_nothing_to_do_for_a_model_that_is_not_in_use(alice, store, in_use):
    alice.set("k")

    assert store.change_take("worker", NEW.id) == []
    (change,) = store.change_take("worker", in_use)
    assert store.vector_put("worker", NEW.id, [vectors(change, 1)]) == 0
    assert states(alice) == {"k": "pending"}


def test_before_any_model_was_named_nothing_is_taken(alice, store):
    alice.set("k")

    assert store.change_take("worker", OLD.id) == []
    assert store.stats().model is None
    assert store.model_use(OLD) == 1
    assert store.stats().model == OLD.id
    assert len(store.change_take("worker", OLD.id)) == 1


def test_another_model_has_everything_embedded_again_and_never_mixes(alice, store, in_use):
    for key in "ab":
        alice.set(key, "word")
    old_a, old_b = store.change_take("worker", in_use)
    store.vector_put("worker", in_use, [vectors(old_a, 1), vectors(old_b, 0.5)])

    assert store.model_use(NEW) == 2
    assert states(alice) == {"a": "pending", "b": "pending"}
    new_a, _ = store.change_take("worker", NEW.id)
    store.vector_put("worker", NEW.id, [vectors(new_a, 0.25)])

    query = {"text": "word", "vector": vectors(new_a, 1).windows[0]}
    with_new = alice.search(**query, model=NEW.id)
    assert {hit.fact.key: hit.cosine for hit in with_new.hits} == {
        "a": pytest.approx(0.25, abs=0.001),
        "b": None,
    }
    with_old = alice.search(**query, model=OLD.id)
    assert with_old.mode == "lexical"
    assert [hit.cosine for hit in with_old.hits] == [None, None]


def test_going_back_to_a_model_embeds_only_what_changed_since(alice, store, in_use):
    for key in ("same", "changed", "moved on"):
        alice.set(key)
    taken = store.change_take("w", in_use)
    store.vector_put("w", in_use, [vectors(change, 1) for change in taken])
    store.model_use(NEW)
    alice.set("changed", "since")
    store.vector_put("w", NEW.id, [vectors(taken[2], 1)])

    assert store.model_use(OLD) == 2
    assert states(alice) == {"same": "ready", "changed": "pending", "moved on": "pending"}


def test_a_worker_that_works_while_others_write_leaves_nothing_behind(alice, store):
    meaning = Meaning(store, FakeEmbedder())
    meaning.catch_up()

    def write(number):
        alice.set(f"k{number % 7}", f"text {number}")
        if number % 5 == 0:
            alice.delete(f"k{number % 7}")

    with ThreadPoolExecutor(4) as threads:
        writing = [threads.submit(write, number) for number in range(120)]
        while not all(job.done() for job in writing):
            meaning.catch_up()
        for job in writing:
            job.result()
    meaning.catch_up()

    stats = store.stats()
    assert stats.backlog.pending == stats.backlog.failed == 0
    assert stats.embedded == stats.facts == len(alice.keys())


def test_a_fact_without_any_vector_is_not_called_embedded(alice, store, in_use):
    alice.set("k")
    (change,) = store.change_take("worker", in_use)
    with pytest.raises(Invalid, match="windows is empty"):
        store.vector_put("worker", in_use, [vectors(change)])

    assert states(alice) == {"k": "pending"}


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), 1e9])
def test_a_lease_is_of_a_length_that_can_run_out(alice, store, in_use, seconds):
    alice.set("k")
    with pytest.raises(Invalid, match="lease_seconds"):
        store.change_take("worker", in_use, lease_seconds=seconds)


def test_a_key_without_a_word_in_it_does_not_blur_what_its_value_means(alice, store, in_use):
    alice.set("D1:3", "a value")
    alice.set("deploy/db-port", "5432")

    texts = [change.text for change in store.change_take("worker", in_use)]
    assert texts == ["a value", "deploy/db-port: 5432"]
