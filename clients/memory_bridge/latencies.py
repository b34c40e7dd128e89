"""How long many calls took: percentiles, and a histogram that any terminal can show."""

import math
from bisect import bisect_left
from collections.abc import Sequence

PERCENTILES = (50, 90, 99, 100)
_BOUNDS_MS = (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)
_BAR_COLUMNS = 50


def percentiles(milliseconds: Sequence[float]) -> dict[str, float]:
    """Returns p50, p90, p99 and p100, the longest, by nearest rank; nothing of nothing."""
    ordered = sorted(milliseconds)
    if not ordered:
        return {}
    ranks = {per: max(1, math.ceil(per / 100 * len(ordered))) for per in PERCENTILES}
    return {f"p{per}": round(ordered[rank - 1], 3) for per, rank in ranks.items()}


def histogram(milliseconds: Sequence[float]) -> list[tuple[str, int, str]]:
    """Returns a row for each range from the first to the last that holds any: name, count, bar."""
    counts = [0] * (len(_BOUNDS_MS) + 1)
    for each in milliseconds:
        counts[bisect_left(_BOUNDS_MS, each)] += 1
    filled = [place for place, count in enumerate(counts) if count]
    if not filled:
        return []
    most = max(counts)
    shown = range(filled[0], filled[-1] + 1)
    return [(_name(place), counts[place], _bar(counts[place], most)) for place in shown]


def _name(place: int) -> str:
    if place == len(_BOUNDS_MS):
        return f"over {_BOUNDS_MS[-1]:g} ms"
    return f"to {_BOUNDS_MS[place]:g} ms"


def _bar(count: int, most: int) -> str:
    return "#" * math.ceil(_BAR_COLUMNS * count / most)
