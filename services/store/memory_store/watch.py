"""Waiting for new events, whoever writes them."""

import threading
import time
from collections.abc import Callable

TELL_SECONDS = 0.025
"""How often news is told at most: the readers that it wakes would otherwise take the processor
from a storm of writes."""


class Watch:
    """Where whoever follows the trail waits. One of those who wait looks, for all of them.

    A commit that is known of makes it look at once; the writer never waits for a look.
    """

    def __init__(self, newest_event: Callable[[], int], look_seconds: float) -> None:
        """Looks so often for what nobody announced."""
        self._newest_event = newest_event
        self._look_seconds = look_seconds
        self._known = 0
        self._commits = 0
        self._led = False
        self._next_look = 0.0
        lock = threading.Lock()
        self._committed = threading.Condition(lock)
        self._told = threading.Condition(lock)

    def commit(self) -> None:
        with self._committed:
            self._commits += 1
            self._committed.notify()

    def wait(self, after_event: int, seconds: float) -> bool:
        """Returns True when there is an event beyond `after_event`, else after the time."""
        deadline = time.monotonic() + seconds
        with self._told:
            try:
                while self._known <= after_event and (left := deadline - time.monotonic()) > 0:
                    if self._led:
                        self._told.wait(left)
                    else:
                        self._lead(left)
                return self._known > after_event
            finally:
                if not self._led:
                    self._told.notify()  # to look in place of who leaves

    def _lead(self, seconds: float) -> None:
        """Looks once, and unless there is news waits until the next look is due."""
        self._led = True
        try:
            commits = self._commits
            newest = self._look()
            if newest > self._known:
                self._known = newest
                self._next_look = time.monotonic() + TELL_SECONDS
                self._told.notify_all()
            elif commits == self._commits:
                self._committed.wait(min(seconds, self._look_seconds))
        finally:
            self._led = False

    def _look(self) -> int:
        self._told.release()
        try:
            time.sleep(max(0.0, self._next_look - time.monotonic()))
            return self._newest_event()
        finally:
            self._told.acquire()
