"""The moment by which something must be done."""

import time
from collections.abc import Callable

from memory_bridge.errors import TimedOut


class Deadline:
    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self._end = clock() + seconds

    @property
    def is_over(self) -> bool:
        return self._clock() >= self._end

    def remaining(self) -> float:
        """Returns the seconds that are left, more than 0. Raises `TimedOut` when none are."""
        left = self._end - self._clock()
        if left <= 0:
            raise self.expired()
        return left

    def expired(self) -> TimedOut:
        return TimedOut(f"The server did not answer within {self.seconds:g} seconds.")


class Silence(Deadline):
    """Begins anew with every read: the peer may go on for ever, as long as it says something."""

    def remaining(self) -> float:
        return self.seconds
