"""Clients of a stack for a while: one that writes, one that searches, and many that only listen."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2

from compose_stack import Stack
from funnel_stack import FunnelStack
from gateway_serving import ACCEPT, MODERN, message, modern

SECONDS = 60.0
WRITING_SHARE = 0.5
"""The writer is through after this part of the time, and the rest is searched in peace."""
EMBED_SECONDS = 300.0


@dataclass
class Visits:
    """`by_meaning` counts the searches that had a vector of their question; `pending` the facts
    that had none of theirs in the end."""

    search_milliseconds: list[float] = field(default_factory=list[float])
    set_milliseconds: list[float] = field(default_factory=list[float])
    by_meaning: int = 0
    pending: int = 0
    failed: int = 0
    broken: int = 0


def visit(
    stack: Stack, values: Mapping[str, str], asked: Sequence[str], streams: int, seconds: float
) -> Visits:
    """Writes all values, one at a time and evenly over the first half, and asks evenly over all of
    the time. Ends when everything is embedded, or will not be."""
    visits = Visits()
    with _listening(stack, streams, visits), ThreadPoolExecutor(2) as pool:
        tasks = [
            pool.submit(_write, stack, visits, values, seconds * WRITING_SHARE),
            pool.submit(_search, stack, visits, asked, seconds),
        ]
        for task in tasks:
            task.result()
        visits.pending = _wait_until_embedded(stack)
    return visits


def _write(stack: Stack, visits: Visits, values: Mapping[str, str], seconds: float) -> None:
    with _client(stack) as web:
        for key, value in _evenly(list(values.items()), seconds):
            arguments = {"key": key, "value": value}
            with _timed(visits, visits.set_milliseconds):
                _call(web, "memory_set", **arguments)


def _search(stack: Stack, visits: Visits, asked: Sequence[str], seconds: float) -> None:
    with _client(stack) as web:
        for question in _evenly(asked, seconds):
            with _timed(visits, visits.search_milliseconds):
                answer = _call(web, "memory_search", query=question)
                visits.by_meaning += answer["mode"] == "hybrid"


def _evenly(things: Sequence[Any], seconds: float) -> Iterator[Any]:
    """Each at its time, or at once if that has passed."""
    began = time.monotonic()
    for number, thing in enumerate(things):
        due = began + seconds * number / len(things)
        time.sleep(max(0.0, due - time.monotonic()))
        yield thing


@contextmanager
def _timed(visits: Visits, times: list[float]) -> Iterator[None]:
    began = time.perf_counter()
    try:
        yield
    except (httpx2.HTTPError, ValueError, KeyError, AssertionError):
        visits.failed += 1
    times.append((time.perf_counter() - began) * 1000)


def _wait_until_embedded(stack: Stack) -> int:
    """Returns how many facts have no vectors."""
    end = time.monotonic() + EMBED_SECONDS
    with _client(stack) as web:
        while True:
            stats = _call(web, "memory_stats")
            missing = stats["facts"] - stats["embedded"]
            if missing == 0 or time.monotonic() > end:
                return missing
            time.sleep(1)


def _call(web: httpx2.Client, tool: str, **arguments: Any) -> Any:
    request = modern("tools/call", name=tool, arguments=arguments)
    called = {**MODERN, "Mcp-Method": "tools/call", "Mcp-Name": tool}
    response = web.post("/mcp", json=request, headers=called)
    result = message(response.raise_for_status())["result"]
    assert not result.get("isError"), result
    return result["structuredContent"]


def _client(stack: Stack) -> Any:
    if isinstance(stack, FunnelStack):
        return stack.visitor(**ACCEPT)
    known = ACCEPT | {"Authorization": f"Bearer {stack.token}"}
    return httpx2.Client(base_url=stack.url.removesuffix("/mcp"), headers=known, timeout=SECONDS)


@contextmanager
def _listening(stack: Stack, count: int, visits: Visits) -> Iterator[None]:
    over = threading.Event()

    def broke() -> None:
        if not over.is_set():
            visits.broken += 1

    with _client(stack) as web:
        opened = threading.Semaphore(0)
        for _ in range(count):
            work = (web, opened, broke)
            threading.Thread(target=_listen, args=work, daemon=True).start()
        for _ in range(count):
            assert opened.acquire(timeout=SECONDS), "a stream was not opened"
        yield
        over.set()


def _listen(web: httpx2.Client, opened: threading.Semaphore, broke: Callable[[], None]) -> None:
    try:
        with web.stream("GET", "/sse") as response:
            response.raise_for_status()
            opened.release()
            for _ in response.iter_lines():
                pass
    except (httpx2.HTTPError, OSError):
        pass
    broke()
