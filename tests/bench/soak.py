"""Thirty clients of every kind for many minutes: no error, and no more memory at the end.

`soak.py [MINUTES]` prints a line every few seconds and writes a plot into bench-results.
"""

import asyncio
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path

import psutil
import soak_clients
from figures import percentile
from gateway_process import gateway_process
from plot import svg
from served import new_database
from soak_clients import Run, Tally
from store_process import SECRET, store_process

RESULTS = Path(__file__).resolve().parents[2] / "bench-results"
MINUTES = 10.0
SAMPLES = 60
LEAST_SECONDS = 2.0
MOST_GROWTH = 1.1
"""How much the last fifth may take above the second; the first is for warming up."""
MB = 1024 * 1024
HEAD = ("second", "gateway MB", "store MB", "open files", "calls/s", "p99 ms", "heard", "errors")


@dataclass(frozen=True)
class Sample:
    """In the order of `HEAD`; calls, p99 and what was heard are since the sample before."""

    second: float
    gateway: float
    store: float
    files: int
    calls: float
    p99: float
    heard: int
    errors: int


def clients(url: str) -> list[tuple[str, Run]]:
    return [
        *((f"newer {seed}", soak_clients.newer(url, seed)) for seed in range(8)),
        *(
            (f"older {seed}", soak_clients.older(url, 10 + seed, subscribes=seed % 2 == 0))
            for seed in range(6)
        ),
        *((f"rest {seed}", soak_clients.rest(url, 20 + seed)) for seed in range(6)),
        *(
            (f"websocket {seed}", soak_clients.socket(url, 30 + seed, modern=seed % 2 == 0))
            for seed in range(4)
        ),
        *((f"follower {seed}", soak_clients.follower(url)) for seed in range(3)),
        *((f"listener {seed}", soak_clients.listener(url)) for seed in range(3)),
    ]


async def soak(url: str, pids: tuple[int, int], seconds: float, tally: Tally) -> list[Sample]:
    tasks = [
        asyncio.create_task(soak_clients.keep_on(name, tally, run)) for name, run in clients(url)
    ]
    samples: list[Sample] = []
    print("".join(f"{name:>12}" for name in HEAD))
    async for sample in _sampled(pids, seconds, tally):
        samples.append(sample)
        print("".join(f"{value:>12.4g}" for value in astuple(sample)), flush=True)
    tally.over = True
    for task in tasks:
        task.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks, return_exceptions=True)
    return samples


async def _sampled(pids: tuple[int, int], seconds: float, tally: Tally) -> AsyncIterator[Sample]:
    gateway, store = map(psutil.Process, pids)
    pause = max(LEAST_SECONDS, seconds / SAMPLES)
    begun = time.monotonic()
    while (passed := time.monotonic() - begun) < seconds:
        await asyncio.sleep(pause)
        times, heard = tally.take()
        yield Sample(
            passed + pause,
            gateway.memory_info().rss / MB,
            store.memory_info().rss / MB,
            gateway.num_fds(),
            len(times) / pause,
            percentile(times, 99) if len(times) > 1 else 0.0,
            heard,
            len(tally.errors),
        )


def growth(values: list[float]) -> float:
    """The last fifth to the second."""
    fifth = max(1, len(values) // 5)
    return statistics.median(values[-fifth:]) / statistics.median(values[fifth : 2 * fifth])


def plotted(samples: list[Sample]) -> Path:
    panels = {
        name: [(it.second, value(it)) for it in samples]
        for name, value in {
            "gateway, resident MB": lambda it: it.gateway,
            "store, resident MB": lambda it: it.store,
            "gateway, open files": lambda it: it.files,
            "calls a second": lambda it: it.calls,
            "p99 of a call, ms": lambda it: it.p99,
            "errors so far": lambda it: it.errors,
        }.items()
    }
    path = RESULTS / time.strftime("soak-%Y%m%d-%H%M%S.svg", time.gmtime())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(svg("30 mixed clients", panels), "utf-8")
    return path


def main() -> int:
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else MINUTES
    tally = Tally()
    with (
        new_database() as database,
        store_process(database) as store,
        gateway_process(store.url, SECRET) as gateway,
    ):
        samples = asyncio.run(soak(gateway.url, (gateway.pid, store.pid), minutes * 60, tally))
    grown = {
        "gateway": growth([it.gateway for it in samples]),
        "store": growth([it.store for it in samples]),
        "open files": growth([it.files for it in samples]),
    }
    print("\n".join(tally.errors[:20]))
    print(", ".join(f"{name} × {times:.3f}" for name, times in grown.items()))
    print(f"errors: {len(tally.errors)}; plot: {plotted(samples)}")
    return 1 if tally.errors or max(grown.values()) > MOST_GROWTH else 0


if __name__ == "__main__":
    sys.exit(main())
