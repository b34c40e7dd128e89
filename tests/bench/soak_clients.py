"""Clients of every kind that a gateway serves, each working at the pace of a busy agent."""

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import httpx2
from corpus import facts, questions
from gateway_process import TOKEN
from load import ENVELOPE, INTRODUCTION, MODERN
from websockets.asyncio.client import connect

AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}
KEYS = 300
PAUSE_SECONDS = (0.05, 0.3)
PATIENCE_SECONDS = 30.0
LISTENED = {"resourcesListChanged": True, "resourceSubscriptions": ["memory://default/soak%2F1"]}

Call = Callable[[str, dict[str, Any]], Awaitable[None]]


class Refused(Exception):
    """An answer that is none: the message is what came instead."""


@dataclass
class Tally:
    """What the clients have met since it was last emptied; errors stay."""

    times: list[float] = field(default_factory=list[float])
    heard: int = 0
    errors: list[str] = field(default_factory=list[str])
    over: bool = False
    """That it is time to go: what breaks off from now on is no error."""

    def take(self) -> tuple[list[float], int]:
        taken, self.times = (self.times, self.heard), []
        self.heard = 0
        return taken


Run = Callable[[Tally], Awaitable[None]]
"""One client from its beginning until the soak is over."""


async def keep_on(name: str, tally: Tally, run: Run) -> None:
    """One client for as long as the soak lasts. One that fails begins anew, and is counted."""
    while not tally.over:
        try:
            await run(tally)
        except Exception as error:  # noqa: BLE001  whatever it is counts
            if not tally.over:
                tally.errors.append(f"{name}: {error!r}"[:300])
                await asyncio.sleep(1)


async def work(call: Call, tally: Tally, seed: int) -> None:
    """Writes, reads and searches by turns."""
    dice = random.Random(seed)
    values, asked = [*facts(KEYS).values()], questions(100, seed=seed)
    while not tally.over:
        key = f"soak/{dice.randrange(KEYS)}"
        tool, arguments = dice.choice(
            (
                ("memory_set", {"key": key, "value": dice.choice(values)}),
                ("memory_get", {"key": key}),
                ("memory_get", {"key": key}),
                ("memory_search", {"query": dice.choice(asked)}),
                ("memory_list", {"prefix": "soak/", "limit": 10}),
            )
        )
        begun = time.perf_counter()
        await call(tool, arguments)
        tally.times.append((time.perf_counter() - begun) * 1000)
        await asyncio.sleep(dice.uniform(*PAUSE_SECONDS))


@asynccontextmanager
async def web_of(url: str) -> AsyncIterator[httpx2.AsyncClient]:
    headers = AUTHORIZED | {"Accept": "application/json, text/event-stream"}
    base = url.removesuffix("/mcp")
    async with httpx2.AsyncClient(base_url=base, headers=headers, timeout=PATIENCE_SECONDS) as web:
        yield web


def request(number: int, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def newer(url: str, seed: int) -> Run:
    async def run(tally: Tally) -> None:
        async with web_of(url) as web:

            async def call(tool: str, arguments: dict[str, Any]) -> None:
                body = request(1, "tools/call", name=tool, arguments=arguments, _meta=ENVELOPE)
                names = {"Mcp-Method": "tools/call", "Mcp-Name": tool}
                headers = {"MCP-Protocol-Version": MODERN} | names
                _check(await web.post("/mcp", json=body, headers=headers))

            await work(call, tally, seed)

    return run


def older(url: str, seed: int, *, subscribes: bool) -> Run:
    """A session; one that subscribes has its stream open beside its calls."""

    async def run(tally: Tally) -> None:
        async with web_of(url) as web:
            opened = await web.post("/mcp", json=request(0, "initialize", **INTRODUCTION))
            session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}

            async def call(tool: str, arguments: dict[str, Any]) -> None:
                body = request(1, "tools/call", name=tool, arguments=arguments)
                _check(await web.post("/mcp", json=body, headers=session))

            async with asyncio.TaskGroup() as tasks:
                working = tasks.create_task(work(call, tally, seed))
                if subscribes:
                    body = request(2, "resources/subscribe", uri="memory://default/soak%2F1")
                    _check(await web.post("/mcp", json=body, headers=session))
                    hearing = tasks.create_task(_hear(web, "GET", "/mcp", tally, session))
                    await working
                    hearing.cancel()

    return run


def rest(url: str, seed: int) -> Run:
    async def run(tally: Tally) -> None:
        async with web_of(url) as web:

            async def call(tool: str, arguments: dict[str, Any]) -> None:
                key = {"key": arguments.get("key", "")}
                match tool:
                    case "memory_set":
                        body = {"value": arguments["value"]}
                        response = await web.put("/api/v1/fact", params=key, json=body)
                    case "memory_get":
                        response = await web.get("/api/v1/fact", params=key)
                    case "memory_list":
                        response = await web.get("/api/v1/facts", params=arguments)
                    case _:
                        response = await web.post("/api/v1/search", json=arguments)
                _check(response, absent=tool == "memory_get")

            await work(call, tally, seed)

    return run


def socket(url: str, seed: int, *, modern: bool) -> Run:
    address = url.replace("http", "ws", 1).removesuffix("/mcp") + "/ws"

    async def run(tally: Tally) -> None:
        async with connect(address, additional_headers=AUTHORIZED) as connection:
            numbers = count(1)

            async def ask(message: dict[str, Any]) -> None:
                await connection.send(json.dumps(message))
                async with asyncio.timeout(PATIENCE_SECONDS):
                    while (answer := json.loads(await connection.recv())).get("id") is None:
                        tally.heard += 1
                _look_into(json.dumps(answer))

            async def call(tool: str, arguments: dict[str, Any]) -> None:
                meta = {"_meta": ENVELOPE} if modern else {}
                params = {"name": tool, "arguments": arguments} | meta
                await ask(request(next(numbers), "tools/call", **params))

            if not modern:
                await ask(request(0, "initialize", **INTRODUCTION))
            await work(call, tally, seed)

    return run


def follower(url: str) -> Run:
    async def run(tally: Tally) -> None:
        async with web_of(url) as web:
            await _hear(web, "GET", "/api/v1/events/stream", tally, {})

    return run


def listener(url: str) -> Run:
    async def run(tally: Tally) -> None:
        body = request(1, "subscriptions/listen", notifications=LISTENED, _meta=ENVELOPE)
        headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "subscriptions/listen"}
        async with web_of(url) as web:
            await _hear(web, "POST", "/mcp", tally, headers, json=body)

    return run


async def _hear(
    web: httpx2.AsyncClient,
    method: str,
    path: str,
    tally: Tally,
    headers: dict[str, str],
    **body: Any,
) -> None:
    async with web.stream(method, path, headers=headers, **body) as response:
        if not response.is_success:
            raise Refused(str(response.status_code))
        async for line in response.aiter_lines():
            tally.heard += line.startswith("data: ")
            if tally.over:
                return
    raise Refused(f"the stream {path} ended")


def _check(response: httpx2.Response, *, absent: bool = False) -> None:
    if not response.is_success and not (absent and response.status_code == 404):
        raise Refused(f"{response.status_code} {response.text[:200]}")
    _look_into(response.text)


def _look_into(text: str) -> None:
    if '"isError":true' in text.replace(" ", "") or '"jsonrpc":"2.0","error"' in text:
        raise Refused(text[:200])
