"""A race of several clients for one key: who overwrote whom, and how long each value lived."""

from dataclasses import dataclass, field
from datetime import datetime
from statistics import median
from typing import Any

from memory_bridge.excerpts import one_line

Event = dict[str, Any]
WIDTHS = (12, 14, 4)


@dataclass(frozen=True)
class Overwritten:
    """A value that has had its time."""

    client: str
    version: int | None
    lived_ms: float

    def as_json(self) -> dict[str, Any]:
        return {"client": self.client, "version": self.version, "lived_ms": self.lived_ms}


@dataclass
class _Racer:
    writes: int = 0
    overwritten: int = 0
    lives_ms: list[float] = field(default_factory=list[float])


class Race:
    """Takes the events of one key in their order."""

    HEAD = ("WHO", "WRITES", "OVERWRITTEN BY OTHERS", "LIVED (ms: least, median, most)")

    def __init__(self) -> None:
        self._last: Event | None = None
        self._racers: dict[str, _Racer] = {}

    def begin(self, event: Event) -> None:
        """Takes what was there before the race."""
        self._last = event

    def add(self, event: Event) -> Overwritten | None:
        """Returns what the event put an end to, None for the first one."""
        last, self._last = self._last, event
        self._racer(event).writes += 1
        if last is None:
            return None
        racer = self._racer(last)
        lived = datetime.fromisoformat(event["at"]) - datetime.fromisoformat(last["at"])
        racer.lives_ms.append(lived.total_seconds() * 1000)
        racer.overwritten += event["source_client"] != last["source_client"]
        return Overwritten(last["source_client"], last["version"], racer.lives_ms[-1])

    def summary(self) -> list[tuple[str, int, int, str]]:
        """Returns a row for each client whose values were overwritten or who wrote."""
        return [
            (name, racer.writes, racer.overwritten, _spread(racer.lives_ms))
            for name, racer in sorted(self._racers.items())
        ]

    def _racer(self, event: Event) -> _Racer:
        return self._racers.setdefault(event["source_client"], _Racer())


def _spread(lives: list[float]) -> str:
    if not lives:
        return "-"
    return f"{min(lives):.0f}, {median(lives):.0f}, {max(lives):.0f}"


def row_of(event: Event, overwritten: Overwritten | None) -> tuple[str, str, str, str]:
    version = "" if event["version"] is None else str(event["version"])
    when = event["at"][11:23]
    what = _told(event) if overwritten is None else f"{_told(event)}, {_ended(overwritten)}"
    return when, event["source_client"], version, what


def _told(event: Event) -> str:
    value = event["value_after"]
    return f"{event['kind']}" if value is None else one_line(value[:40])


def _ended(overwritten: Overwritten) -> str:
    name = one_line(overwritten.client)
    return f"over {name}'s {overwritten.version}, which lived {overwritten.lived_ms:.0f} ms"
