"""The drain thread works when nudged, survives everything, and stops when told to."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fakes import FakeChanges, FakeEmbedder
from memory_embedder.contract import EmbedderUnavailable
from memory_embedder.worker import LONGEST_PAUSE, DrainThread
from memory_store.contract import Busy, Internal, Unavailable
from waiting import wait_until

NEVER = 3600.0


@contextmanager
def running(
    store: FakeChanges, embedder: FakeEmbedder, interval: float = NEVER, **options
) -> Iterator[DrainThread]:
    thread = DrainThread(store, embedder, "a", interval, pause=0.01, **options)
    thread.start()
    try:
        yield thread
    finally:
        assert thread.stop()


def test_what_waited_before_the_start_is_embedded():
    store = FakeChanges()
    store.write(1, "a fact")
    with running(store, FakeEmbedder()):
        wait_until(lambda: 1 in store.vectors)


def test_a_nudge_is_enough():
    store = FakeChanges()
    with running(store, FakeEmbedder()) as thread:
        wait_until(lambda: store.takes > 0)
        store.write(1, "a fact")
        thread.nudge()
        wait_until(lambda: 1 in store.vectors)


def test_a_nudge_is_done_with_after_one_round():
    store = FakeChanges()
    with running(store, FakeEmbedder()) as thread:
        wait_until(lambda: store.takes == 1)
        thread.nudge()
        wait_until(lambda: store.takes == 2 and not thread._nudged.is_set())


def test_what_others_wrote_is_found_without_a_nudge():
    store = FakeChanges()
    with running(store, FakeEmbedder(), interval=0.01):
        wait_until(lambda: store.takes > 0)
        store.write(1, "a fact")
        wait_until(lambda: 1 in store.vectors)


def test_a_nudge_during_the_work_is_not_lost():
    store, gate = FakeChanges(), threading.Event()
    embedder = FakeEmbedder(gate=gate)
    store.write(1, "first")
    with running(store, embedder) as thread:
        wait_until(lambda: store.takes > 0)
        store.write(2, "second")
        thread.nudge()
        gate.set()
        wait_until(lambda: 2 in store.vectors)


def test_the_model_is_announced_once_and_before_any_work():
    store = FakeChanges()
    with running(store, FakeEmbedder(), interval=0.01):
        wait_until(lambda: store.takes > 3)
    assert store.uses == [FakeEmbedder().identity]


def test_nothing_is_loaded_before_there_is_work():
    store, embedder = FakeChanges(), FakeEmbedder()
    with running(store, embedder, interval=0.01):
        wait_until(lambda: store.takes > 3)
    assert embedder.embedded == []


def test_preloading_loads_at_once_and_once():
    store, embedder = FakeChanges(), FakeEmbedder()
    with running(store, embedder, interval=0.01, preload=True):
        wait_until(lambda: store.takes > 3)
    assert embedder.embedded == [""]


@pytest.mark.parametrize(
    "error", [Busy("busy"), Unavailable("closing"), RuntimeError("a bug"), MemoryError()]
)
def test_an_error_of_the_store_is_survived(error: Exception):
    store = FakeChanges()
    store.write(1, "a fact")
    store.raises = error
    with running(store, FakeEmbedder()):
        wait_until(lambda: 1 in store.vectors)


class UntilEnough(threading.Event):
    """An event that nobody waits for: the pauses are written down, and the last one sets it."""

    def __init__(self, enough: int) -> None:
        super().__init__()
        self.pauses: list[float] = []
        self._enough = enough

    def wait(self, timeout=None) -> bool:
        self.pauses.append(timeout)
        if len(self.pauses) == self._enough:
            self.set()
        return self.is_set()


class FailingStore(FakeChanges):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def model_use(self, identity):
        del identity
        raise type(self.error)(*self.error.args)  # a new one: a traceback grows with each raise


def pauses_after(error: Exception) -> list[float]:
    """Returns the pauses after that error, over and over: more than a double can be doubled."""
    thread = DrainThread(FailingStore(error), FakeEmbedder(), "a")
    thread._stopped = stopped = UntilEnough(1100)
    thread.start()
    thread._thread.join(60)
    assert stopped.is_set()
    return stopped.pauses


@pytest.mark.parametrize("error", [Busy("busy"), Unavailable("closing")])
def test_a_store_that_asks_to_try_again_is_asked_every_two_seconds(error: Exception):
    assert pauses_after(error) == [1.0, *[2.0] * 1099]


@pytest.mark.parametrize("error", [Internal("a fault"), EmbedderUnavailable("no model"), OSError()])
def test_what_will_not_pass_soon_is_tried_less_and_less(error: Exception):
    pauses = pauses_after(error)
    assert pauses[:7] == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, LONGEST_PAUSE]
    assert set(pauses[7:]) == {LONGEST_PAUSE}


def test_a_model_that_comes_later_is_used_then():
    store, embedder = FakeChanges(), FakeEmbedder(unavailable="There is no model.")
    store.write(1, "a fact")
    with running(store, embedder):
        wait_until(lambda: store.takes > 2)
        embedder.unavailable = None
        wait_until(lambda: 1 in store.vectors)
    assert store.failed == {}


def test_the_same_failure_is_told_once(caplog):
    store, embedder = FakeChanges(), FakeEmbedder(unavailable="There is no model.")
    store.write(1, "a fact")
    with caplog.at_level(logging.WARNING), running(store, embedder):
        wait_until(lambda: store.takes > 3)
    assert [record.getMessage() for record in caplog.records] == ["There is no model."]


def test_a_changed_model_is_announced_again():
    store, embedder = FakeChanges(), FakeEmbedder("one")
    with running(store, embedder) as thread:
        wait_until(lambda: store.takes > 0)
        embedder.name = "two"
        thread.nudge()
        wait_until(lambda: len(store.uses) == 2)
    assert [identity.name for identity in store.uses] == ["one", "two"]


def test_stopping_gives_back_what_was_not_begun():
    store, gate = FakeChanges(), threading.Event()
    for subject in range(3):
        store.write(subject, f"fact {subject}")
    thread = DrainThread(store, FakeEmbedder(gate=gate), "a")
    thread.start()
    wait_until(lambda: store.takes > 0)
    assert not thread.stop(timeout=0.05)
    gate.set()
    assert thread.stop()
    assert store.pending == [1, 2]
    assert len(store.change_take("b", FakeEmbedder().identity.id)) == 2


def test_a_thread_that_never_started_stops_too():
    assert DrainThread(FakeChanges(), FakeEmbedder(), "a").stop()
