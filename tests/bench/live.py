"""How soon subscribers hear of a write: the store, the writing gateway and theirs all apart."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import psutil
from corpus import facts
from figures import Figure, percentile
from gateway_process import TOKEN, gateway_process
from served import new_database
from store_process import SECRET, store_process

WRITES = 150
SUBSCRIBERS = (1, 50)
PAUSE_SECONDS = 0.05
"""At most, before a write: it must not always meet the follower at the same moment."""
IDLE_SECONDS = 5.0
HEADERS = {
    "Authorization": f"Bearer {TOKEN}",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28",
}
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def measure() -> Iterator[Figure]:
    with (
        new_database() as database,
        store_process(Path(database)) as store,
        gateway_process(store.url, SECRET) as written,
        gateway_process(store.url, SECRET) as read,
    ):
        processes = [psutil.Process(pid) for pid in (store.pid, read.pid)]
        for subscribers in SUBSCRIBERS:
            times, idle = asyncio.run(_measured(written.url, read.url, subscribers, processes))
            name = f"write to notice, subscribers: {subscribers}"
            yield Figure(f"{name}, p50", percentile(times, 50), "ms")
            yield Figure(f"{name}, p95", percentile(times, 95), "ms", most=150)
        yield Figure("idle followers, store's processor", idle[0], "%")
        yield Figure("idle followers, gateway's processor", idle[1], "%")


async def _measured(
    written: str, read: str, subscribers: int, processes: list[psutil.Process]
) -> tuple[list[float], list[float]]:
    """Milliseconds from the beginning of each write to each notice of it, and what share of a
    processor the processes take while nothing happens."""
    pauses = random.Random(7)
    limits = httpx2.Limits(max_connections=None)
    async with (
        httpx2.AsyncClient(headers=HEADERS, timeout=60, limits=limits) as web,
        AsyncExitStack() as streams,
    ):
        listening = [
            await streams.enter_async_context(_listening(web, read)) for _ in range(subscribers)
        ]
        times: list[float] = []
        for key, value in facts(WRITES, seed=subscribers).items():
            await asyncio.sleep(pauses.uniform(0, PAUSE_SECONDS))
            start = time.perf_counter()
            hearing = asyncio.gather(*map(_heard, listening))
            await _set(web, written, key, value)
            times += [(at - start) * 1000 for at in await hearing]
        return times, await _idle(processes)


@asynccontextmanager
async def _listening(web: httpx2.AsyncClient, url: str) -> AsyncIterator[AsyncIterator[str]]:
    """The notices of a stream that is told when the list of facts changes."""
    body = _request("subscriptions/listen", notifications={"resourcesListChanged": True})
    method = {"Mcp-Method": "subscriptions/listen"}
    async with web.stream("POST", url, json=body, headers=method) as stream:
        notices = (line async for line in stream.aiter_lines() if line.startswith("data: "))
        await anext(notices)  # the acknowledgement
        yield notices


async def _heard(notices: AsyncIterator[str]) -> float:
    await anext(notices)
    return time.perf_counter()


async def _set(web: httpx2.AsyncClient, url: str, key: str, value: str) -> None:
    body = _request("tools/call", name="memory_set", arguments={"key": key, "value": value})
    names = {"Mcp-Method": "tools/call", "Mcp-Name": "memory_set"}
    (await web.post(url, json=body, headers=names)).raise_for_status()


def _request(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": ENVELOPE, **params}}


async def _idle(processes: list[psutil.Process]) -> list[float]:
    for process in processes:
        process.cpu_percent()
    await asyncio.sleep(IDLE_SECONDS)
    return [process.cpu_percent() for process in processes]
