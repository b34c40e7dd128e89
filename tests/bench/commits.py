"""Durable writes a second when they come one by one and when they come together."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice

from corpus import facts
from figures import Figure
from served import Served, new_database, served

from memory_store.contract import Caller, FactWrite
from memory_store.opening import open_store
from memory_store.settings import StoreSettings

AT_ONCE = (1, 8, 32)
STORE_WRITES = 4000
MCP_WRITES = 1000

Write = Callable[[str, str], object]


def measure() -> Iterator[Figure]:
    yield from _in_the_store()
    with new_database() as database, served(database, MCP_EMBEDDINGS="off") as memory:
        for threads in AT_ONCE:
            rate = _rate(threads, MCP_WRITES, lambda key, value: _call(memory, key, value))
            yield Figure(f"memory_set over stdio, {threads} in flight", rate, "a second")


def _in_the_store() -> Iterator[Figure]:
    caller = Caller(principal="bench", source_client="bench")
    for threads in AT_ONCE:
        with new_database() as database:
            settings = StoreSettings.model_validate({"memory_db": database})
            with closing(open_store(settings)) as store:
                rate = _rate(
                    threads,
                    STORE_WRITES,
                    lambda key, value, to=store: to.fact_set(
                        caller, FactWrite(key=key, value=value)
                    ),
                )
        yield Figure(f"fact_set in the store, {threads} threads", rate, "a second")


def _call(memory: Served, key: str, value: str) -> None:
    memory.call("memory_set", key=key, value=value)


def _rate(threads: int, count: int, write: Write) -> float:
    """Writes a second by so many threads that share the work."""
    shares = [
        list(islice(facts(count, seed=threads).items(), first, None, threads))
        for first in range(threads)
    ]
    workers = [threading.Thread(target=_write_all, args=(write, share)) for share in shares]
    start = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return count / (time.perf_counter() - start)


def _write_all(write: Write, share: list[tuple[str, str]]) -> None:
    for key, value in share:
        write(key, value)
