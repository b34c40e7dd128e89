"""The one place where the store reads the time."""

import time
from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], int]
"""Returns milliseconds since 1970-01-01 UTC."""


def system_clock() -> int:
    return time.time_ns() // 1_000_000  # noqa: TID251 - this is the clock that others receive


def moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
