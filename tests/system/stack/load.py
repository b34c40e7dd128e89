"""Clients that write through every failure, and what of it has to be there afterwards."""

import secrets
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from typing import Any, Self

from compose_stack import Stack
from memory_bridge.client import Client, ClientError, ConnectionLost, TimedOut, ToolFailed
from waiting import wait_until

KEYS = 12
PAGE = 20
"""Few enough for an answer to have every value whole."""
PAUSE_SECONDS = 0.05
PATIENCE_SECONDS = 90.0
SEARCHABLE_SECONDS = 30.0
"""How long after a recovery it may take until everything is found by its meaning."""
WHO = ("baker", "captain", "dentist", "gardener", "lawyer", "painter", "pilot", "shepherd")
WHAT = ("accordion", "bicycle", "chessboard", "ladder", "lantern", "piano", "telescope", "wheel")
WHERE = ("attic", "barn", "cellar", "garage", "harbour", "kitchen", "library", "market")


class Load:
    """Clients that each write their own keys again and again until the context ends, each write
    until it is acknowledged; among the writes they search.

    `acknowledged` has the values of each key, the first one first. `troubles` is what clients were
    told meanwhile that may be tried again; anything else ends the client and is raised at the end.
    """

    def __init__(self, stack: Stack, *, clients: int = 4, keys: int = KEYS) -> None:
        self.namespace = f"load-{secrets.token_hex(4)}"
        self.acknowledged: dict[str, list[str]] = defaultdict(list)
        self.troubles: list[ClientError] = []
        self._stack = stack
        self._clients = clients
        self._keys = keys
        self._ended = threading.Event()
        self._threads = ThreadPoolExecutor(clients, thread_name_prefix="load")
        self._running: list[Future[None]] = []

    def __enter__(self) -> Self:
        self._running = [self._threads.submit(self._write_on, n) for n in range(self._clients)]
        self.go_on()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._threads.shutdown()
        for client in self._running:
            client.result()

    @property
    def writes(self) -> int:
        return sum(map(len, list(self.acknowledged.values())))

    @property
    def newest(self) -> dict[str, str]:
        return {key: values[-1] for key, values in self.acknowledged.items()}

    def go_on(self, writes: int = 20) -> None:
        """Returns when so many more writes have been acknowledged."""
        enough = self.writes + writes
        wait_until(
            lambda: self.writes >= enough or self._failed(),
            seconds=PATIENCE_SECONDS,
            about=f"{writes} writes more; told: {self.told()}",
        )

    def told(self) -> set[str]:
        return {f"{type(trouble).__name__}: {trouble}" for trouble in self.troubles}

    def _failed(self) -> bool:
        return any(client.done() for client in self._running)

    def _write_on(self, number: int) -> None:
        with self._stack.client(f"client-{number}", gateway=number) as client:
            for turn in count():
                key = f"{number}/{turn % self._keys}"
                value = _sentence(number + turn * self._clients)
                self._answered(client, "memory_set", key=key, value=value, idempotency_key=_once())
                self.acknowledged[key].append(value)
                if turn % 4 == 0:
                    self._answered(client, "memory_search", query=value)
                if self._ended.wait(PAUSE_SECONDS):
                    return

    def _answered(self, client: Client, tool: str, **arguments: Any) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                client.call_tool(tool, {"namespace": self.namespace, **arguments})
            except ClientError as trouble:
                if not _passes(trouble) or time.monotonic() > end:
                    raise
                self.troubles.append(trouble)
                self._ended.wait(PAUSE_SECONDS)
            else:
                return


def _passes(trouble: ClientError) -> bool:
    """Whether the same may be asked again, since a write is made once under its key."""
    if isinstance(trouble, ToolFailed):
        return trouble.problem.get("retryable", False)
    return isinstance(trouble, ConnectionLost | TimedOut)


def _once() -> str:
    return secrets.token_hex(12)


def _sentence(number: int) -> str:
    """One that no other number has, and that nothing else means."""
    rest, who = divmod(number, len(WHO))
    rest, what = divmod(rest, len(WHAT))
    rest, where = divmod(rest, len(WHERE))
    return f"The {WHO[who]} keeps a {WHAT[what]} in the {WHERE[where]}, on shelf {rest}."


def assert_nothing_lost(stack: Stack, load: Load) -> None:
    """Every write that was acknowledged is there, once, and in the order of its versions."""
    made: dict[str, list[str]] = defaultdict(list)
    with stack.client() as client:
        for event in reversed(list(_events(client, load.namespace))):
            made[event["key"]].append(event["value_after"])
            assert event["version"] == len(made[event["key"]]), event
        current = {fact["key"]: fact["value"] for fact in _facts(client, load.namespace)}
    differing = _differing(load.acknowledged, made)
    assert not differing, f"acknowledged, and made: {differing}"
    assert current == load.newest


def _differing(one: dict[str, Any], other: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """What stands under the keys that do not hold the same in both."""
    keys = one.keys() | other.keys()
    pairs = {key: (one.get(key), other.get(key)) for key in keys}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def assert_found_by_meaning(stack: Stack, load: Load, recovered: float) -> None:
    """Every fact is, at the latest 30 seconds after the moment of the recovery."""
    missing = load.newest
    with stack.client() as client:

        def all_found() -> bool:
            for key, value in list(missing.items()):
                with suppress(ClientError):
                    if _is_found(client, load.namespace, key, value):
                        del missing[key]
            return not missing

        left = recovered + SEARCHABLE_SECONDS - time.monotonic()
        wait_until(all_found, seconds=left, about=missing)


def _is_found(client: Client, namespace: str, key: str, value: str) -> bool:
    arguments = {"namespace": namespace, "query": value, "mode": "semantic", "top_k": 3}
    found = client.call_tool("memory_search", arguments)["structuredContent"]
    ready = [hit["fact"]["key"] for hit in found["hits"] if hit["fact"]["index"] == "ready"]
    return found["mode"] == "semantic" and key in ready


def _events(client: Client, namespace: str) -> Iterator[dict[str, Any]]:
    """Every change of a namespace, the newest first."""
    for event in _pages(client, "memory_history", "events", namespace=namespace):
        assert event["kind"] == "set", event
        yield event


def _facts(client: Client, namespace: str) -> Iterator[dict[str, Any]]:
    yield from _pages(client, "memory_list", "facts", namespace=namespace)


def _pages(client: Client, tool: str, field: str, **arguments: Any) -> Iterator[dict[str, Any]]:
    cursor = None
    while True:
        page = client.call_tool(tool, arguments | {"cursor": cursor, "limit": PAGE})
        yield from page["structuredContent"][field]
        cursor = page["structuredContent"]["next_cursor"]
        if cursor is None:
            return
