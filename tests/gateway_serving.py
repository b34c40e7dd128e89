"""The gateway as its users start it, and what asks it."""

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from memory_embedder.contract import Embedder
from memory_embedder.drain import drain
from memory_store.contract import Store

TOKEN = "a-token-of-the-tests-0123456789"
AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}
SECONDS = 20.0
ACCEPT = {"Accept": "application/json, text/event-stream"}
LIST_CHANGED = "notifications/resources/list_changed"
INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "raw", "version": "1"},
    },
}
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
MODERN = {"MCP-Protocol-Version": "2026-07-28"}


def modern(method: str, **params: Any) -> dict[str, Any]:
    """A request of the newer protocol."""
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": ENVELOPE, **params}}


def message(response: httpx2.Response) -> dict[str, Any]:
    """The JSON-RPC message of a response, whichever way it came."""
    if response.headers["content-type"].startswith("text/event-stream"):
        return json.loads(response.text.split("data: ")[-1])
    return response.json()


@dataclass
class Drain:
    """A nudge that embeds at once, on the thread that wrote."""

    store: Store
    embedder: Embedder

    def __call__(self) -> None:
        self.store.model_use(self.embedder.identity)
        drain(self.store, self.embedder, "tests")


def environment(**settings: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MCP_")}
    return kept | {"MCP_EMBEDDINGS": "off"} | settings


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "memory_gateway.main", *arguments]


class StdioServer:
    """A server on pipes, spoken to in bytes, so that what is not JSON-RPC can be said too."""

    def __init__(self, database: Path, *, reading: bool = True, **settings: str) -> None:
        self.process = subprocess.Popen(
            command(str(database)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(**settings),
        )
        self.errors: list[bytes] = []
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._stderr = threading.Thread(target=self._drain_errors, daemon=True)
        self._stderr.start()
        self._stdout = threading.Thread(target=self._read_lines, daemon=True)
        if reading:
            self._stdout.start()

    def _read_lines(self) -> None:
        for line in self.process.stdout or ():
            self._lines.put(line)

    def _drain_errors(self) -> None:
        self.errors.extend(self.process.stderr or ())

    def say(self, line: bytes) -> None:
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def request(self, number: int, method: str, **params: Any) -> None:
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        self.say(json.dumps(message).encode())

    def call(self, number: int, tool: str, **arguments: Any) -> None:
        self.request(number, "tools/call", name=tool, arguments=arguments)

    def answer(self, seconds: float = SECONDS) -> dict[str, Any]:
        """The next thing that it says, unless that is merely that the list of facts changed."""
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            raise AssertionError(f"no answer; stderr: {b''.join(self.errors)!r}") from None
        message = json.loads(line)
        return self.answer(seconds) if message.get("method") == LIST_CHANGED else message

    def initialize(self, client: str = "raw") -> dict[str, Any]:
        self.introduce(client)
        return self.answer()

    def introduce(self, client: str = "raw") -> None:
        introduction = {"name": client, "version": "1"}
        self.request(
            0,
            "initialize",
            protocolVersion="2025-11-25",
            capabilities={},
            clientInfo=introduction,
        )
        self.say(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')

    def close(self) -> list[dict[str, Any]]:
        """Ends the input; returns what was still answered."""
        self.process.stdin.close()
        self.process.wait(SECONDS)
        self._stdout.join(SECONDS)
        rest = [json.loads(self._lines.get()) for _ in range(self._lines.qsize())]
        self._stderr.join(SECONDS)
        return [message for message in rest if message.get("method") != LIST_CHANGED]


@contextmanager
def stdio_server(database: Path, *, reading: bool = True, **settings: str) -> Iterator[StdioServer]:
    """`reading` says whether anybody takes what the server says on stdout."""
    server = StdioServer(database, reading=reading, **settings)
    try:
        yield server
    finally:
        server.process.kill()
        server.process.wait(SECONDS)


@dataclass
class HttpServer:
    process: subprocess.Popen[str]
    url: str
    errors: list[str]
    reader: threading.Thread

    def stop(self, number: int) -> tuple[int, str]:
        """Sends a signal; returns the exit code and what was said on stderr since the start."""
        self.process.send_signal(number)
        code = self.process.wait(SECONDS)
        self.reader.join(SECONDS)
        return code, "".join(self.errors)

    @property
    def port(self) -> int:
        return int(self.url.split(":")[2].split("/")[0])


@contextmanager
def http_server(database: Path, **settings: str) -> Iterator[HttpServer]:
    process = subprocess.Popen(
        command(str(database), "--http"),
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**({"MCP_HTTP_PORT": "0", "MCP_AUTH_TOKEN": TOKEN} | settings)),
    )
    try:
        said = iter(process.stderr)
        url = next(line.split()[-1] for line in said if line.startswith("listening on "))
        errors: list[str] = []
        reader = threading.Thread(target=errors.extend, args=[said], daemon=True)
        reader.start()
        yield HttpServer(process, url, errors, reader)
    finally:
        process.kill()
        process.wait(SECONDS)
