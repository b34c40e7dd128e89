"""A memory server of the bench's own, on a new database, reached as a script would reach it."""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from memory_bridge.client import Client
from memory_bridge.stdio import StdioTransport

AT_ONCE = 100
POLL_SECONDS = 0.05
STUCK_SECONDS = 60.0
MB = 1_000_000

Facts = Mapping[str, str]


class CannotMeasure(Exception):
    """The server does not do what is to be measured. The message is a sentence."""


class Served:
    """One stdio server and the tools of its memory."""

    def __init__(self, client: Client, pid: int) -> None:
        self.client = client
        self.pid = pid

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return self.client.call_tool(tool, arguments)["structuredContent"]

    def remember(self, facts: Facts, namespace: str = "default") -> None:
        """Stores all facts, a hundred at a time."""
        writes = [{"key": key, "value": value} for key, value in facts.items()]
        for start in range(0, len(writes), AT_ONCE):
            some = writes[start : start + AT_ONCE]
            answer = self.call("memory_set_many", namespace=namespace, writes=some)
            for outcome in answer["outcomes"]:
                if outcome.get("problem"):
                    raise CannotMeasure(f"A fact was refused: {outcome['problem']['message']}")

    def wait_until_embedded(self) -> None:
        """Returns when every fact has its vectors. Raises `CannotMeasure` if none gets any."""
        embedded, since = -1, time.monotonic()
        while (stats := self.call("memory_stats"))["embedded"] < stats["facts"]:
            if stats["backlog"]["failed"]:
                raise CannotMeasure(f"Embedding failed: {stats['backlog']['failure']}")
            if stats["embedded"] != embedded:
                embedded, since = stats["embedded"], time.monotonic()
            if time.monotonic() - since > STUCK_SECONDS:
                raise CannotMeasure("Facts wait for vectors in vain: is the model prepared?")
            time.sleep(POLL_SECONDS)

    def search(self, query: str, mode: str, top_k: int, namespace: str = "default") -> list[str]:
        """Returns the keys that were found, best first."""
        answer = self.call(
            "memory_search", query=query, mode=mode, top_k=top_k, namespace=namespace
        )
        if answer["mode"] != mode:
            raise CannotMeasure(f"A {mode} search was answered as {answer['mode']}.")
        return [hit["fact"]["key"] for hit in answer["hits"]]

    def memory(self) -> tuple[float, float]:
        """Resident and unique megabytes of the server's process."""
        used = psutil.Process(self.pid).memory_full_info()
        return used.rss / MB, used.uss / MB


def program() -> str:
    """The console command of the Python that runs this."""
    found = shutil.which("memory-bridge", path=Path(sys.executable).parent)
    if found is None:
        raise CannotMeasure("memory-bridge is not installed beside this Python; run make setup.")
    return found


def serve_command(database: Path) -> list[str]:
    return [program(), "serve", str(database)]


def environment(settings: Mapping[str, str]) -> dict[str, str]:
    """The bench's own, without the settings that its user has made for another memory."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MCP_")}
    return kept | dict(settings)


@contextmanager
def connected(command: Sequence[str], **settings: str) -> Iterator[tuple[Client, int]]:
    transport = StdioTransport(command, environment=environment(settings))
    with Client(transport) as client:
        if transport.pid is None:
            raise CannotMeasure("The server did not start.")
        yield client, transport.pid


@contextmanager
def served(database: Path, **settings: str) -> Iterator[Served]:
    with connected(serve_command(database), **settings) as (client, pid):
        yield Served(client, pid)


@contextmanager
def served_on(address: str | None) -> Iterator[Served]:
    """A memory on the empty Postgres database of that address, or on a new file."""
    if address:
        command = [program(), "serve"]
        with connected(command, MCP_DATABASE_URL=address) as (client, pid):
            yield Served(client, pid)
    else:
        with new_database() as database, served(database) as memory:
            yield memory


@contextmanager
def new_database() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="memory-bridge-bench-") as folder:
        yield Path(folder, "memory.db")
