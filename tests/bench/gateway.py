"""What calls over HTTP cost, with the gateway, the store and the clients in processes apart."""

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
from corpus import facts
from figures import Figure, percentile
from gateway_process import BARE, GatewayProcess, gateway_process
from load import LEGACY, MODERN, SEEDED, Asker
from served import CannotMeasure, new_database
from store_process import SECRET, StoreProcess, store_process

from memory_store.client import HttpStore
from memory_store.contract import Caller, FactWrite

LOAD = Path(__file__).with_name("load.py")
PROFILED = Path(__file__).with_name("profiled_gateway.py")
TOOLS = ("memory_get", "memory_set", "memory_search")
CLIENTS = (1, 16, 64)
SECONDS = 3.0
WARM_UP_SECONDS = 1.0
WARM_UP_TURNS = 50
TURNS = 600
FEWEST_SETS = 300
SLOWEST_GET = 6
MOST_OVERHEAD = 10
STOP_SECONDS = 20
LARGEST = 14


def measure() -> Iterator[Figure]:
    with new_database() as database, store_process(database) as store:
        seed(store)
        with gateway_process(store.url, SECRET) as gateway:
            for era in (MODERN, LEGACY):
                load(gateway.url, era, "memory_set", 16, WARM_UP_SECONDS)
                for tool in TOOLS:
                    for clients in CLIENTS:
                        yield from _speed(gateway.url, era, tool, clients)
                yield from _processor(gateway, store, era)
        yield from _overhead(store)
        yield from _shares(store)


def seed(store: StoreProcess) -> None:
    """Through the client of the store, as the gateway's own writes come."""
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


def _processor(gateway: GatewayProcess, store: StoreProcess, era: str) -> Iterator[Figure]:
    """What a write takes of a processor, which other programs on the machine hardly change."""
    pids = {"gateway": gateway.pid, "store": store.pid}
    before = {name: _used(pid) for name, pid in pids.items()}
    calls = len(load(gateway.url, era, "memory_set", 16)["times"])
    for name, pid in pids.items():
        took = (_used(pid) - before[name]) / calls * 1000
        yield Figure(f"processor of the {name} for a memory_set {era}", took, "ms")


def _used(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def _overhead(store: StoreProcess) -> Iterator[Figure]:
    """Call by call in turns, so that what else the machine does meets both alike."""
    with (
        gateway_process(store.url, SECRET) as whole,
        gateway_process(store.url, SECRET, program=BARE) as bare,
    ):
        for tool in TOOLS:
            pair = [Asker(it.url, MODERN, number, tool) for number, it in enumerate((whole, bare))]
            times = [[_milliseconds(asker) for asker in pair] for _ in range(WARM_UP_TURNS + TURNS)]
            with_all, without = map(statistics.median, zip(*times[WARM_UP_TURNS:], strict=True))
            name = f"auth, bounds, metrics and logs: their part of {tool}"
            yield Figure(name, (with_all / without - 1) * 100, "%", most=MOST_OVERHEAD)
            for asker in pair:
                asker.socket.close()


def _milliseconds(asker: Asker) -> float:
    asker.ask()
    while (took := asker.answer()) is None:
        pass
    return took


def _shares(store: StoreProcess) -> Iterator[Figure]:
    """Where the event loop of the gateway is, while it has writes carried out."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "seconds.json")
        program = [sys.executable, str(PROFILED), str(report), "--http"]
        with gateway_process(store.url, SECRET, program=program) as gateway:
            load(gateway.url, MODERN, "memory_set", 16)
            process = psutil.Process(gateway.pid)
            process.terminate()
            process.wait(STOP_SECONDS)
        seconds = json.loads(report.read_text("utf-8"))
    whole = sum(seconds.values())
    largest = sorted(seconds.items(), key=lambda it: -it[1])[:LARGEST]
    for package, took in largest:
        yield Figure(f"memory_set, event loop: {package}", took / whole * 100, "%")
