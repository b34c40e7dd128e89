"""Waiting for what others write."""

import threading
import time
from collections.abc import Callable


class Waiting:
    """Where threads wait until something is there, looking again whenever they are woken."""

    def __init__(self) -> None:
        self._woken = threading.Condition()
        self._count = 0

    def wake(self) -> None:
        with self._woken:
            self._count += 1
            self._woken.notify_all()

    def wait(self, is_there: Callable[[], bool], seconds: float, look_every: float) -> None:
        """Returns when it is there or the time is over; looks unasked too, every so many seconds.

        What comes between a look and the wait is not missed.
        """
        deadline = time.monotonic() + seconds
        seen = self._count
        while not is_there() and (remaining := deadline - time.monotonic()) > 0:
            with self._woken:
                self._woken.wait_for(
                    lambda before=seen: self._count != before, min(remaining, look_every)
                )
                seen = self._count
