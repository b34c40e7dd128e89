"""How soon whoever follows the trail hears of a write, of its own process and of another."""

import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from corpus import facts
from figures import Figure, percentile
from served import new_database, served

from memory_store.contract import Caller, FactWrite, Store
from memory_store.opening import open_store
from memory_store.settings import StoreSettings

WRITES = 200
LONGEST_WAIT_SECONDS = 30.0
PAUSE_SECONDS = 0.05
"""At most, before a write: it must not always meet the follower at the same moment."""

Write = Callable[[str, str], object]


def measure() -> Iterator[Figure]:
    caller = Caller(principal="bench", source_client="bench")
    with new_database() as database, served(database, MCP_EMBEDDINGS="off") as memory:
        settings = StoreSettings.model_validate({"memory_db": database})
        with closing(open_store(settings)) as store:
            yield from _figures(
                "write in the process to its follower",
                _times(
                    store,
                    lambda key, value: store.fact_set(caller, FactWrite(key=key, value=value)),
                ),
            )
            yield from _figures(
                "memory_set in another process to the follower",
                _times(store, lambda key, value: memory.call("memory_set", key=key, value=value)),
                most=150,
            )


def _figures(name: str, times: list[float], most: float | None = None) -> Iterator[Figure]:
    yield Figure(f"{name}, p50", percentile(times, 50), "ms")
    yield Figure(f"{name}, p95", percentile(times, 95), "ms", most=most)


def _times(store: Store, write: Write) -> list[float]:
    """Milliseconds from the beginning of each write to the feed that has its event."""
    pauses = random.Random(7)
    times: list[float] = []
    after = store.event_follow(None).after
    with ThreadPoolExecutor(1) as threads:
        for key, value in facts(WRITES, seed=6).items():
            following = threads.submit(_told, store, after)
            time.sleep(pauses.uniform(0, PAUSE_SECONDS))
            start = time.perf_counter()
            write(key, value)
            at, after = following.result()
            times.append((at - start) * 1000)
    return times


def _told(store: Store, after: int) -> tuple[float, int]:
    """Returns when there was news, and from where to go on."""
    feed = store.event_follow(after, wait_seconds=LONGEST_WAIT_SECONDS)
    return time.perf_counter(), feed.after
