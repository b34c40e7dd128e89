"""Draining embeds all that waits, once, newest version only, and no text holds up another."""

import pytest

from fakes import FakeChanges, FakeClock, FakeEmbedder
from memory_embedder.contract import EmbedderUnavailable
from memory_embedder.drain import BATCH, drain
from memory_store.contract import Busy, Internal, Invalid, StoreError, Unavailable


def written(count: int) -> FakeChanges:
    store = FakeChanges()
    for subject in range(count):
        store.write(subject, f"fact {subject}")
    return store


def test_everything_that_waits_is_embedded_however_much():
    store = written(3 * BATCH + 1)
    assert drain(store, FakeEmbedder(), "a") == 3 * BATCH + 1
    assert store.pending == []
    assert len(store.vectors) == 3 * BATCH + 1


def test_nothing_waiting_loads_nothing():
    embedder = FakeEmbedder()
    assert drain(FakeChanges(), embedder, "a") == 0
    assert embedder.embedded == []


def test_a_long_text_gets_a_vector_for_each_window_in_order():
    store, embedder = FakeChanges(), FakeEmbedder()
    text = " ".join(f"word{i}" for i in range(130))
    store.write(1, text)
    drain(store, embedder, "a")
    expected = embedder.embed(embedder.windows(text))
    assert len(expected) == 3
    assert list(store.vectors[1].windows) == expected


def test_a_text_that_cannot_be_embedded_holds_up_no_other():
    store = written(2 * BATCH)
    store.write(3, "poison")
    assert drain(store, FakeEmbedder(fails_on="poison"), "a") == 2 * BATCH - 1
    assert set(store.failed) == {3}


def test_a_batch_of_nothing_but_poison_holds_up_no_other():
    store = FakeChanges()
    for subject in range(2 * BATCH):
        store.write(subject, "poison")
    store.write(99, "a fact")
    assert drain(store, FakeEmbedder(fails_on="poison"), "a") == 1
    assert set(store.vectors) == {99}


def test_the_reason_of_a_failure_tells_nothing_of_the_text_or_of_us():
    store = FakeChanges()
    store.write(1, "poison")
    drain(store, FakeEmbedder(fails_on="poison"), "a")
    assert store.failed == {1: "The embedder failed on this text."}


class RewritingEmbedder(FakeEmbedder):
    """Writes the subject anew while its former version is being embedded."""

    def embed(self, texts):
        if texts == ["old"]:
            self.store.write(1, "new")
        return super().embed(texts)


def test_a_version_that_is_overtaken_while_it_is_embedded_is_dropped():
    embedder = RewritingEmbedder()
    embedder.store = store = FakeChanges()
    store.write(1, "old")
    assert drain(store, embedder, "a") == 1
    assert store.vectors[1].version == 2
    assert list(store.vectors[1].windows) == FakeEmbedder().embed(["new"])


def test_without_a_model_the_changes_are_free_for_others_at_once():
    store = written(3)
    with pytest.raises(EmbedderUnavailable, match="no model"):
        drain(store, FakeEmbedder(unavailable="no model"), "a")
    assert store.failed == {}
    assert drain(store, FakeEmbedder(), "b") == 3


def test_what_another_has_leased_is_left_alone_until_the_lease_ends():
    clock = FakeClock()
    store = FakeChanges(clock)
    store.write(1, "a fact")
    assert len(store.change_take("gone", FakeEmbedder().identity.id)) == 1
    assert drain(store, FakeEmbedder(), "a") == 0
    clock.advance(31)
    assert drain(store, FakeEmbedder(), "a") == 1


def test_an_interruption_keeps_what_is_done_and_gives_back_the_rest():
    store, embedder = written(BATCH), FakeEmbedder()
    assert drain(store, embedder, "a", lambda: len(embedder.embedded) == 3) == 3
    assert drain(store, FakeEmbedder(), "b") == BATCH - 3


class SlowEmbedder(FakeEmbedder):
    """Takes six seconds a text."""

    def embed(self, texts):
        self.clock.advance(6)
        return super().embed(texts)


class SpyingStore(FakeChanges):
    def vector_put(self, owner, model, vectors):
        self.put.append(len(vectors))
        return super().vector_put(owner, model, vectors)


def test_long_texts_are_put_in_smaller_batches_so_that_no_lease_runs_out():
    embedder = SlowEmbedder()
    embedder.clock = clock = FakeClock()
    store = SpyingStore(clock)
    store.put = []
    for subject in range(5):
        store.write(subject, f"fact {subject}")
    assert drain(store, embedder, "a", clock=clock) == 5
    assert store.put == [2, 2, 1]


def test_an_error_of_the_store_is_the_caller_s():
    store = written(1)
    store.raises = Busy("another process writes")
    with pytest.raises(Busy):
        drain(store, FakeEmbedder(), "a")


class RefusingStore(FakeChanges):
    """Takes no vectors: `refusal` is raised instead, and by what else is named in `also`."""

    def __init__(self, refusal: StoreError, *also: str) -> None:
        super().__init__()
        self.refusal: StoreError | None = refusal
        self.also = also

    def vector_put(self, owner, model, vectors):
        if self.refusal is not None:
            raise self.refusal
        return super().vector_put(owner, model, vectors)

    def change_release(self, owner):
        if "change_release" in self.also:
            raise Unavailable("the store has gone")
        return super().change_release(owner)


@pytest.mark.parametrize("refusal", [Busy("busy"), Unavailable("closing"), Internal("no room")])
def test_vectors_that_the_store_cannot_take_now_leave_their_changes_free_at_once(refusal):
    store = RefusingStore(refusal)
    store.write(1, "a fact")
    for _ in range(10):
        with pytest.raises(type(refusal)):
            drain(store, FakeEmbedder(), "a")
    store.refusal = None
    assert drain(store, FakeEmbedder(), "b") == 1


def test_a_store_that_has_gone_altogether_is_told_as_it_first_showed():
    store = RefusingStore(Busy("another process writes"), "change_release")
    store.write(1, "a fact")
    with pytest.raises(Busy):
        drain(store, FakeEmbedder(), "a")


def test_without_a_model_and_without_a_store_it_is_the_model_that_is_missing():
    store = RefusingStore(Busy("busy"), "change_release")
    store.write(1, "a fact")
    with pytest.raises(EmbedderUnavailable, match="no model"):
        drain(store, FakeEmbedder(unavailable="no model"), "a")


def test_vectors_that_are_wrong_in_themselves_keep_their_lease_so_that_it_counts_as_a_try():
    store = RefusingStore(Invalid("windows is empty"))
    store.write(1, "a fact")
    with pytest.raises(Invalid):
        drain(store, FakeEmbedder(), "a")
    assert store.change_take("b", FakeEmbedder().identity.id) == []


def test_a_model_that_is_not_in_use_gets_nothing_to_do():
    store = written(2)
    store.model_use(FakeEmbedder("another").identity)
    assert drain(store, FakeEmbedder(), "a") == 0
