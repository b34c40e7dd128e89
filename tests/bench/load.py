"""Clients of a gateway that ask it again and again, each as soon as it is answered.

A program of its own, and no more than sockets and prepared bytes, so that what is measured is the
gateway: `load.py URL ERA TOOL CLIENTS SECONDS` prints the milliseconds of each call as JSON.
"""

import json
import selectors
import socket
import sys
import time
from collections.abc import Iterator
from itertools import count
from typing import Any
from urllib.parse import urlsplit

from corpus import facts, questions
from gateway_process import TOKEN

SEEDED = 1_000
MODERN = "2026-07-28"
LEGACY = "2025-11-25"
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}
INTRODUCTION = {
    "protocolVersion": LEGACY,
    "capabilities": {},
    "clientInfo": {"name": "load", "version": "1"},
}
LAST_CHUNK = b"\r\n0\r\n\r\n"


class Asker:
    """One connection of one client, with a call under way most of the time."""

    def __init__(self, url: str, era: str, number: int, tool: str) -> None:
        self._address = urlsplit(url)
        self._era = era
        self._session = ""
        self._questions = asked_of(tool, number)
        self._tool = tool
        self._text = b""
        self._since = 0.0
        self.socket = socket.create_connection((self._address.hostname, self._address.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if era == LEGACY:
            self._begin()

    def _begin(self) -> None:
        self._post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": INTRODUCTION})
        while not self._take():
            pass
        head = self._text.partition(b"\r\n\r\n")[0].decode()
        fields = dict(line.split(": ", 1) for line in head.lower().split("\r\n")[1:])
        self._session = f"Mcp-Session-Id: {fields['mcp-session-id']}\r\n"

    def ask(self) -> None:
        params: dict[str, Any] = {"name": self._tool, "arguments": next(self._questions)}
        if self._era == MODERN:
            params["_meta"] = ENVELOPE
        self._post({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})

    def _post(self, message: dict[str, Any]) -> None:
        body = json.dumps(message, separators=(",", ":"))
        names = f"Mcp-Method: tools/call\r\nMcp-Name: {self._tool}\r\n"
        head = (
            f"POST {self._address.path} HTTP/1.1\r\nHost: {self._address.netloc}\r\n"
            f"Authorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n"
            "Accept: application/json, text/event-stream\r\n"
            f"MCP-Protocol-Version: {self._era}\r\n"
            f"{names if self._era == MODERN else self._session}Content-Length: {len(body)}\r\n\r\n"
        )
        self._text = b""
        self._since = time.perf_counter()
        self.socket.sendall((head + body).encode())

    def answer(self) -> float | None:
        """The milliseconds since the call, once its answer is whole."""
        if not self._take():
            return None
        took = (time.perf_counter() - self._since) * 1000
        if not self._text.startswith(b"HTTP/1.1 200") or b'"isError":true' in self._text:
            raise SystemExit(f"refused: {self._text[:500]!r}")
        return took

    def _take(self) -> bool:
        received = self.socket.recv(65536)
        if not received:
            raise SystemExit("the gateway closed a connection")
        self._text += received
        head, parted, body = self._text.partition(b"\r\n\r\n")
        if not parted:
            return False
        _, announced, length = head.lower().partition(b"\r\ncontent-length: ")
        if announced:
            return len(body) >= int(length.partition(b"\r\n")[0])
        return body.endswith(LAST_CHUNK)


def asked_of(tool: str, number: int) -> Iterator[dict[str, Any]]:
    """What client `number` asks a tool, without end."""
    if tool == "memory_search":
        texts = questions(200, seed=number)
        return ({"query": texts[turn % len(texts)], "top_k": 5} for turn in count())
    known = facts(SEEDED)
    if tool == "memory_get":
        keys = [*known][number % SEEDED :] + [*known][: number % SEEDED]
        return ({"key": keys[turn % SEEDED]} for turn in count())
    values = [*known.values()]
    return (
        {"key": f"load/{number}/{time.time_ns()}", "value": values[turn % SEEDED]}
        for turn in count()
    )


def run(url: str, era: str, tool: str, clients: int, seconds: float) -> dict[str, Any]:
    """The milliseconds of each call, and for how many seconds they were made."""
    times: list[float] = []
    with selectors.DefaultSelector() as selector:
        for number in range(clients):
            asker = Asker(url, era, number, tool)
            selector.register(asker.socket, selectors.EVENT_READ, asker)
        askers: list[Asker] = [key.data for key in selector.get_map().values()]
        begun = time.perf_counter()
        for asker in askers:
            asker.ask()
        while time.perf_counter() - begun < seconds:
            for key, _ in selector.select(seconds):
                took = key.data.answer()
                if took is not None:
                    times.append(took)
                    key.data.ask()
        lasted = time.perf_counter() - begun
    return {"times": times, "seconds": lasted}


if __name__ == "__main__":
    address, protocol, name, many, lasting = sys.argv[1:]
    print(json.dumps(run(address, protocol, name, int(many), float(lasting))))
