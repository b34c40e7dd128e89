"""Waiting for what will come true."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], *, seconds: float = 30.0, about: object = "") -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"it did not come true in time: {about}"
        time.sleep(0.01)
