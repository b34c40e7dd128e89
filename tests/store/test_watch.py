"""Those who wait for events share one look, and no commit waits for it."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from memory_store.contract import Unavailable
from memory_store.watch import Watch

LOOK_SECONDS = 0.025
LONG = 30.0
SOON = 2.0


class Trail:
    """A newest event that tests move, with a count of who looked, and of how many at once."""

    def __init__(self):
        self.newest = 0
        self.looks = 0
        self.at_once = 0
        self.fails = None
        self.gate = threading.Event()
        self.gate.set()
        self._looking = 0
        self._lock = threading.Lock()

    def look(self):
        with self._lock:
            self.looks += 1
            self._looking += 1
            self.at_once = max(self.at_once, self._looking)
        try:
            assert self.gate.wait(LONG)
            if self.fails is not None:
                raise self.fails
            return self.newest
        finally:
            with self._lock:
                self._looking -= 1


@pytest.fixture
def trail():
    return Trail()


@pytest.fixture
def watch(trail):
    return Watch(trail.look, LOOK_SECONDS)


def wait_for(condition):
    deadline = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.001)


def test_many_who_wait_look_as_often_as_one(watch, trail):
    with ThreadPoolExecutor(50) as threads:
        waiting = [threads.submit(watch.wait, 0, LONG) for _ in range(50)]
        wait_for(lambda: trail.looks > 20)
        began, looks = time.monotonic(), trail.looks
        wait_for(lambda: trail.looks >= looks + 8)
        assert time.monotonic() - began >= 6 * LOOK_SECONDS
        trail.newest = 1
        assert not wait(waiting, timeout=SOON).not_done
    assert trail.at_once == 1


def test_a_commit_does_not_wait_for_a_look(watch, trail):
    trail.gate.clear()
    with ThreadPoolExecutor(5) as threads:
        waiting = [threads.submit(watch.wait, 0, LONG) for _ in range(4)]
        wait_for(lambda: trail.at_once)
        threads.submit(watch.commit).result(SOON)
        trail.newest = 1
        trail.gate.set()
        assert not wait(waiting, timeout=SOON).not_done


def test_a_commit_during_a_look_is_looked_at_without_a_pause(trail):
    watch = Watch(trail.look, LONG)
    trail.gate.clear()
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(watch.wait, 0, LONG)
        wait_for(lambda: trail.at_once)
        watch.commit()
        trail.gate.set()
        wait_for(lambda: trail.looks == 2)
        trail.newest = 1
        watch.commit()
        waiting.result(SOON)


def test_who_stops_waiting_leaves_the_looking_to_another(watch, trail):
    with ThreadPoolExecutor(4) as threads:
        first = threads.submit(watch.wait, 0, 0.05)
        wait_for(lambda: trail.looks)
        others = [threads.submit(watch.wait, after, LONG) for after in (0, 0, 5)]
        first.result(SOON)
        looks = trail.looks
        wait_for(lambda: trail.looks > looks)
        trail.newest = 1
        assert not wait(others[:2], timeout=SOON).not_done
        looks = trail.looks
        wait_for(lambda: trail.looks > looks)
        trail.newest = 6
        others[2].result(SOON)


def test_news_are_told_at_most_so_often(watch, trail):
    """Each telling wakes readers, who would take the processor from a storm of writes."""
    told, began = 0, time.monotonic()
    with ThreadPoolExecutor(1) as threads:
        while told < 5:
            waiting = threads.submit(watch.wait, trail.newest, LONG)
            trail.newest += 1
            watch.commit()
            waiting.result(SOON)
            told += 1
    assert time.monotonic() - began >= 4 * LOOK_SECONDS


def test_a_look_that_fails_is_told_to_all_who_wait(watch, trail):
    with ThreadPoolExecutor(8) as threads:
        waiting = [threads.submit(watch.wait, 0, LONG) for _ in range(8)]
        wait_for(lambda: trail.looks)
        trail.fails = Unavailable("the store is closed")
        assert not wait(waiting, timeout=SOON).not_done
    assert all(isinstance(it.exception(), Unavailable) for it in waiting)
