"""Waiting for new events in a database that nobody announces them from."""

import threading
import time
from collections.abc import Callable

LOOK_SECONDS = 0.025
"""How often is looked for what other processes wrote, and how often news is told at most:
the readers that it wakes would otherwise take the processor from a storm of writes."""


class Watch:
    """Where whoever follows the trail waits. One of those who wait looks, for all of them.

    A commit of this process makes it look at once. The writer never waits for a look.
    """

    def __init__(self, newest_event: Callable[[], int]) -> None:
        self._newest_event = newest_event
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

    def wait(self, after_event: int, seconds: float) -> None:
        """Returns when there is an event beyond `after_event`, or the time is over."""
        deadline = time.monotonic() + seconds
        with self._told:
            try:
                while self._known <= after_event and (left := deadline - time.monotonic()) > 0:
                    if self._led:
                        self._told.wait(left)
                    else:
                        self._lead(left)
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
                self._next_look = time.monotonic() + LOOK_SECONDS
                self._told.notify_all()
            elif commits == self._commits:
                self._committed.wait(min(seconds, LOOK_SECONDS))
        finally:
            self._led = False

    def _look(self) -> int:
        self._told.release()
        try:
            time.sleep(max(0.0, self._next_look - time.monotonic()))
            return self._newest_event()
        finally:
            self._told.acquire()
