"""The moment by which something must be done."""

import time
from collections.abc import Callable

from memory_bridge.errors import TimedOut


class Deadline:
    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self._end = clock() + seconds

    def remaining(self) -> float:
        """Returns the seconds that are left, more than 0. Raises `TimedOut` when none are."""
        left = self._end - self._clock()
        if left <= 0:
            raise self.expired()
        return left

    def expired(self) -> TimedOut:
        return TimedOut(f"The server did not answer within {self.seconds:g} seconds.")
