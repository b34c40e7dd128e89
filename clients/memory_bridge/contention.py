"""Many clients that count up the same keys at once, and what became of their writes."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from memory_bridge import exits, latencies
from memory_bridge.errors import ClientError, HTTPFailure, ToolFailed
from memory_bridge.memory import Memory

T = TypeVar("T")

_LONGEST_PAUSE_SECONDS = 30.0


@dataclass(frozen=True)
class Load:
    """Each client makes so many writes, on the keys in turn, comparing and setting or blindly."""

    writes: int
    keys: tuple[str, ...]
    compares: bool


@dataclass
class Tally:
    """What the writes met. An error's outcome is unknown, a refusal was tried again, and so was
    what the server wanted later, as it does beyond the rate of a token."""

    written: int = 0
    refused: int = 0
    deferred: int = 0
    errors: Counter[str] = field(default_factory=Counter[str])
    milliseconds: list[float] = field(default_factory=list[float])

    def add(self, other: "Tally") -> None:
        self.written += other.written
        self.refused += other.refused
        self.deferred += other.deferred
        self.errors += other.errors
        self.milliseconds += other.milliseconds


@dataclass(frozen=True)
class Outcome:
    """`lost` is by how much the keys hold less than was written to them."""

    tally: Tally
    seconds: float
    lost: int

    def as_json(self) -> dict[str, Any]:
        return {
            "written": self.tally.written,
            "refused": self.tally.refused,
            "deferred": self.tally.deferred,
            "errors": dict(self.tally.errors),
            "lost_updates": self.lost,
            "seconds": round(self.seconds, 3),
            "writes_per_second": round(self.tally.written / self.seconds, 1),
            "milliseconds": latencies.percentiles(self.tally.milliseconds),
            "histogram": [row[:2] for row in latencies.histogram(self.tally.milliseconds)],
        }


def contend(load: Load, memories: Sequence[Memory]) -> Outcome:
    """Has every memory's client write at once; an interrupt ends it within a call of each."""
    stop = threading.Event()
    with ThreadPoolExecutor(len(memories)) as pool:
        try:
            began = time.perf_counter()
            works = [pool.submit(_Worker(load, memory, stop).work) for memory in memories]
            tallies = [work.result() for work in works]
            seconds = time.perf_counter() - began
        finally:
            stop.set()
    total = Tally()
    for tally in tallies:
        total.add(tally)
    held = sum(patiently(lambda key=key: _held(memories[0], key))[0] for key in load.keys)
    return Outcome(total, seconds, total.written - held)


def patiently(call: Callable[[], T], pause: Callable[[float], object] = time.sleep) -> T:
    """Returns what the call does, made again as late as the server asks for; a true answer of
    `pause` ends that."""
    while True:
        try:
            return call()
        except HTTPFailure as later:
            seconds = later.retry_after
            if seconds is None or pause(min(seconds, _LONGEST_PAUSE_SECONDS)):
                raise


class _Worker:
    def __init__(self, load: Load, memory: Memory, stop: threading.Event) -> None:
        self._load = load
        self._memory = memory
        self._stop = stop
        self._tally = Tally()

    def work(self) -> Tally:
        for number in range(self._load.writes):
            if self._stop.is_set():
                break
            try:
                self._count_up(self._load.keys[number % len(self._load.keys)])
            except ClientError as error:
                self._tally.errors[exits.name_of(error)] += 1
        return self._tally

    def _count_up(self, key: str) -> None:
        """Adds one to what the key holds, however often that takes."""
        value, version = patiently(lambda: _held(self._memory, key), self._pause)
        while not self._stop.is_set():
            condition = {"expected_version": version} if self._load.compares else {}
            try:
                write = {"key": key, "value": str(value + 1), **condition}
                patiently(lambda write=write: self._set(write), self._pause)
            except ToolFailed as error:
                if error.problem.get("code") != "conflict":
                    raise
                self._tally.refused += 1
                value, version = _numbers(error.problem.get("current"))
            else:
                self._tally.written += 1
                return

    def _pause(self, seconds: float) -> bool:
        self._tally.deferred += 1
        return self._stop.wait(seconds)

    def _set(self, write: dict[str, Any]) -> None:
        began = time.perf_counter()
        try:
            self._memory.call("memory_set", write)
        finally:
            self._tally.milliseconds.append((time.perf_counter() - began) * 1000)


def _held(memory: Memory, key: str) -> tuple[int, int]:
    return _numbers(memory.call("memory_get", {"key": key})["fact"])


def _numbers(fact: Any) -> tuple[int, int]:
    """Returns what a fact has counted to, and its version; an absent one is at version 0."""
    return (0, 0) if fact is None else (int(fact["value"]), fact["version"])
