"""Write storms: what is acknowledged before something ends, and what of it is missing after."""

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

from bench.store_process import Database
from memory_store.client import HttpStore
from memory_store.contract import Caller, FactWrite, Unavailable
from memory_store.store import SqlStore

WRITERS = 6
KEYS = 25
CALLER = Caller(principal="p", source_client="c")
WAIT_SECONDS = 20


@dataclass
class Round:
    """One storm: what was acknowledged before the end, and what nobody knows about.

    An acknowledgement: kind, key, version, value. `dice` choose the moment of the end.
    """

    database: Database
    number: int
    acknowledged: list[tuple[str, str, int, str]] = field(default_factory=list)
    unknown: list[FactWrite] = field(default_factory=list)

    @property
    def dice(self) -> random.Random:
        return random.Random(self.number)

    def moment(self) -> tuple[int, float]:
        """After how many acknowledgements and how many seconds more it ends."""
        return self.dice.randint(20, 400), self.dice.uniform(0, 0.02)


def write_on(storm: Round, store: HttpStore, writer: int) -> None:
    name = f"h{storm.number}w{writer}"
    for number in count():
        key, word = f"{name}/{number % KEYS}", f"{name}x{number}"
        write = FactWrite(key=key, value=f"the word {word}", tags=(word,), idempotency_key=word)
        try:
            fact = store.fact_set(CALLER, write)
            storm.acknowledged.append(("set", key, fact.version, fact.value))
            if number % 7 == 0:
                gone = store.fact_delete(CALLER, "default", key)
                storm.acknowledged.append(("delete", key, gone.version, gone.value))
        except Unavailable:
            storm.unknown.append(write)
            return


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.001)


def rows(store, sql, **parameters):
    with store.engine.read() as session:
        return [tuple(row.values()) for row in session.all(sql, **parameters)]


def missing(store: SqlStore, storm: Round) -> Iterator[str]:
    """What was acknowledged and is not there."""
    versions = rows(store, "SELECT key, version, value FROM fact_version")
    removed = rows(
        store, "SELECT key, version, value FROM fact_version WHERE removed_at IS NOT NULL"
    )
    there = {("set", *version) for version in versions} | {("delete", *it) for it in removed}
    yield from (f"lost: {write}" for write in storm.acknowledged if write not in there)
