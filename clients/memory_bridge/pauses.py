"""How long to wait before the next try."""

import os
from collections.abc import Iterator

_FIRST_SECONDS = 0.05
_LONGEST_SECONDS = 2.0


def pauses() -> Iterator[float]:
    """Yields seconds, each about twice the last up to two; uneven, so that many do not meet."""
    seconds = _FIRST_SECONDS
    while True:
        yield seconds * (0.75 + os.urandom(1)[0] / 1024)
        seconds = min(2 * seconds, _LONGEST_SECONDS)
