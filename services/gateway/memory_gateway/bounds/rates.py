"""Token buckets, as GCRA: one moment per name instead of a count and a time.

https://en.wikipedia.org/wiki/Generic_cell_rate_algorithm: a bucket of `burst` tokens that gains
`per_second` of them is full when its moment is past, and empty when it lies burst / per_second
ahead of now.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

MOST_NAMES = 10_000
ROUNDING = 1e-6
"""Seconds within which sums of floats count as equal."""


@dataclass(frozen=True)
class Rate:
    per_second: float
    burst: int

    @property
    def interval(self) -> float:
        return 1 / self.per_second

    @property
    def tolerance(self) -> float:
        return (self.burst - 1) * self.interval + ROUNDING


class Rates(Protocol):
    async def take(self, name: str) -> float:
        """Takes one token of a name; returns 0, or the seconds until there is one to take."""
        ...


class LocalRates:
    """Buckets of this process alone. Of too many names the one least used is forgotten."""

    def __init__(self, rate: Rate, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._moments: OrderedDict[str, float] = OrderedDict()

    async def take(self, name: str) -> float:
        return self.take_now(name)

    def take_now(self, name: str) -> float:
        now = self._clock()
        moment = max(self._moments.get(name, now), now)
        missing = moment - now - self._rate.tolerance
        if missing > 0:
            return missing
        self._moments[name] = moment + self._rate.interval
        self._moments.move_to_end(name)
        if len(self._moments) > MOST_NAMES:
            self._moments.popitem(last=False)
        return 0.0
