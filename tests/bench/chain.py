"""The whole chain as it runs in the stack: gateway, queue, worker and store, a process each."""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from corpus import facts, questions
from figures import Figure, milliseconds, percentile
from gateway_process import TOKEN, gateway_process
from served import CannotMeasure
from store_process import SECRET
from worker import pending, store_and_queue, wait, worker_process, write

from memory_bridge.client import Client
from memory_store.client import HttpStore
from memory_store.contract import DEFAULT_NAMESPACE, Caller

FACTS = 10_000
EMBEDDED_MEANWHILE = 2_000
ASKED = 300
WRITES_A_SECOND, WRITING_SECONDS = 50, 10
LOOK_SECONDS = 0.01
CALLER = Caller(principal="bench", source_client="bench")
SLOWEST_SEARCH = 25
SLOWEST_BUSY_SEARCH = 150
SLOWEST_TO_MEANING, SLOWEST_OF_ALL_TO_MEANING = 300, 2_000


def measure() -> Iterator[Figure]:
    with (
        store_and_queue() as (serving, store, redis),
        worker_process(serving.url, redis),
        gateway_process(serving.url, SECRET, MCP_EMBEDDINGS="on", MCP_REDIS_URL=redis) as gateway,
        Client.http(gateway.url, token=TOKEN) as client,
    ):
        write(store, facts(FACTS))
        wait(lambda: pending(store) == 0, 600)
        yield from _searches(client, "idle", 0, p50=SLOWEST_SEARCH)
        yield from _to_meaning(client, store)
        write(store, facts(EMBEDDED_MEANWHILE, seed=3))
        client.call_tool("memory_set", {"key": "last", "value": "wakes the worker"})
        wait(lambda: pending(store) < EMBEDDED_MEANWHILE, 30)
        yield from _searches(client, "busy", ASKED, p95=SLOWEST_BUSY_SEARCH)
        yield Figure("facts pending after the busy searches", pending(store), "", least=1)


def _searches(
    client: Client, when: str, skipped: int, *, p50: float | None = None, p95: float | None = None
) -> Iterator[Figure]:
    asked = questions(skipped + ASKED)[skipped:]
    times = [milliseconds(lambda text=text: _search(client, text)) for text in asked]
    yield Figure(f"memory_search, {when}, p50", percentile(times, 50), "ms", most=p50)
    yield Figure(f"memory_search, {when}, p95", percentile(times, 95), "ms", most=p95)


def _search(client: Client, text: str) -> None:
    mode = client.call_tool("memory_search", {"query": text})["structuredContent"]["mode"]
    if mode != "hybrid":
        raise CannotMeasure(f"A search was answered as {mode}.")


@dataclass
class _Written:
    """When each key was acknowledged, and how long its vector took from then."""

    at: dict[str, float] = field(default_factory=dict[str, float])
    took: dict[str, float] = field(default_factory=dict[str, float])

    def look(self, store: HttpStore) -> None:
        keys = [key for key in list(self.at) if key not in self.took][:100]
        found = store.fact_get_many(CALLER, DEFAULT_NAMESPACE, keys) if keys else []
        now = time.perf_counter()
        ready = [fact.key for fact in found if fact and fact.index == "ready"]
        self.took |= {key: (now - self.at[key]) * 1000 for key in ready}


def _to_meaning(client: Client, store: HttpStore) -> Iterator[Figure]:
    written = _Written()
    writing = threading.Thread(target=_write_evenly, args=(client, written))
    writing.start()
    count = WRITES_A_SECOND * WRITING_SECONDS
    deadline = time.monotonic() + WRITING_SECONDS + 60
    while len(written.took) < count:
        if time.monotonic() > deadline:
            raise CannotMeasure("What was written did not get its vectors in time.")
        written.look(store)
        time.sleep(LOOK_SECONDS)
    writing.join()
    times = list(written.took.values())
    name = f"from a write to its vector, {WRITES_A_SECOND} writes a second"
    p50, p99 = (percentile(times, percent) for percent in (50, 99))
    yield Figure(f"{name}, p50", p50, "ms", most=SLOWEST_TO_MEANING)
    yield Figure(f"{name}, p99", p99, "ms", most=SLOWEST_OF_ALL_TO_MEANING)


def _write_evenly(client: Client, written: _Written) -> None:
    began = time.perf_counter()
    for number in range(WRITES_A_SECOND * WRITING_SECONDS):
        time.sleep(max(0.0, began + number / WRITES_A_SECOND - time.perf_counter()))
        key = f"even/{number}"
        client.call_tool("memory_set", {"key": key, "value": f"what came {number} in its turn"})
        written.at[key] = time.perf_counter()
