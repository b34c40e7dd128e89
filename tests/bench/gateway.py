"""What calls over HTTP cost, with the gateway, the store and the clients in processes apart."""

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from corpus import facts
from figures import Figure, percentile
from gateway_process import BARE, PROGRAM, gateway_process
from load import LEGACY, MODERN, SEEDED
from served import CannotMeasure, new_database
from store_process import SECRET, StoreProcess, store_process

from memory_store.contract import Caller, FactWrite

LOAD = Path(__file__).with_name("load.py")
TOOLS = ("memory_get", "memory_set", "memory_search")
CLIENTS = (1, 16, 64)
SECONDS = 3.0
WARM_UP_SECONDS = 1.0
ROUNDS = 7
ROUND_SECONDS = 1.5
FEWEST_SETS = 300
SLOWEST_GET = 6
MOST_OVERHEAD = 10


def measure() -> Iterator[Figure]:
    with new_database() as database, store_process(database) as store:
        seed(store)
        with gateway_process(store.url, SECRET) as gateway:
            for era in (MODERN, LEGACY):
                load(gateway.url, era, "memory_set", 16, WARM_UP_SECONDS)
                for tool in TOOLS:
                    for clients in CLIENTS:
                        yield from _speed(gateway.url, era, tool, clients)
        yield from _overhead(store)


def seed(store: StoreProcess) -> None:
    """Through the client of the store, as the gateway's own writes come."""
    from memory_store.client import HttpStore  # noqa: PLC0415  drawn from the contract when made

    caller = Caller(principal="bench", source_client="bench")
    held = HttpStore(store.url, SECRET)
    writes = [FactWrite(key=key, value=value) for key, value in facts(SEEDED).items()]
    for begin in range(0, SEEDED, 100):
        held.fact_set_many(caller, writes[begin : begin + 100])
    held.close()


def load(url: str, era: str, tool: str, clients: int, seconds: float = SECONDS) -> dict[str, Any]:
    command = [sys.executable, str(LOAD), url, era, tool, str(clients), str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotMeasure(f"{tool}, {clients} clients: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout)


def _speed(url: str, era: str, tool: str, clients: int) -> Iterator[Figure]:
    found = load(url, era, tool, clients)
    times, name = found["times"], f"{tool} {era}, clients: {clients}"
    judged = era == MODERN
    fewest = FEWEST_SETS if judged and tool == "memory_set" and clients > 1 else None
    slowest = SLOWEST_GET if tool == "memory_get" and clients == 1 else None
    yield Figure(name, len(times) / found["seconds"], "calls/s", least=fewest)
    yield Figure(f"{name}, p50", percentile(times, 50), "ms", most=slowest)
    yield Figure(f"{name}, p99", percentile(times, 99), "ms")


def _overhead(store: StoreProcess) -> Iterator[Figure]:
    """In rounds by turns, so that what else the machine does meets both alike."""
    with ExitStack() as open_:
        urls = [
            open_.enter_context(gateway_process(store.url, SECRET, program=program)).url
            for program in (PROGRAM, BARE)
        ]
        for tool in TOOLS:
            more = [_ratio(urls, tool) for _ in range(ROUNDS)]
            percent = (statistics.median(more) - 1) * 100
            name = f"auth, bounds, metrics and logs: their part of {tool}"
            yield Figure(name, percent, "%", most=MOST_OVERHEAD)


def _ratio(urls: list[str], tool: str) -> float:
    whole, bare = (
        statistics.median(load(url, MODERN, tool, 1, ROUND_SECONDS)["times"]) for url in urls
    )
    return whole / bare
