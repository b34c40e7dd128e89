"""The one place where the command line reads the time of day."""

from datetime import UTC, datetime


def now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251  # this is the clock that others receive
