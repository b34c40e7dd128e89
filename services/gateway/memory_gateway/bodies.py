"""The bodies of HTTP requests, bounded; for MCP one JSON-RPC message each."""

import asyncio
from collections import deque

from mcp_types import JSONRPCRequest

from memory_gateway.asgi import (
    JSON,
    METHOD,
    REFUSED,
    REQUEST_ID,
    App,
    Message,
    Receive,
    Scope,
    Send,
    header,
    refuse,
)
from memory_gateway.frames import Unreadable, parse

LARGEST_BODY = 4 * 1024 * 1024
CARRYING = frozenset({"POST", "PUT", "PATCH"})
NOT_JSON = "The body must be JSON, and Content-Type must say so: application/json."
LATE = "The body did not arrive in time."
CLOSE = [(b"connection", b"close")]


class BoundedBodies:
    """Reads the body before anything else does, and refuses one that is too large or too slow."""

    def __init__(self, app: App, largest: int, seconds: float) -> None:
        self.app = app
        self._largest = largest
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in CARRYING:
            await self.app(scope, receive, send)
            return
        try:
            async with asyncio.timeout(self._seconds):
                body = await self._read(scope, receive)
        except TimeoutError:
            await refuse(scope, send, 408, REFUSED, LATE, CLOSE)
        except _Disconnected:
            pass
        except _TooLarge:
            message = f"The body is longer than {self._largest} bytes, which is the most allowed."
            await refuse(scope, send, 413, REFUSED, message, CLOSE)
        else:
            await self.pass_on(body, scope, receive, send)

    async def pass_on(self, body: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, _Replay(body, receive), send)

    async def _read(self, scope: Scope, receive: Receive) -> bytes:
        announced = header(scope, b"content-length") or b"0"
        if announced.isdigit() and int(announced) > self._largest:
            raise _TooLarge
        body, more = bytearray(), True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _Disconnected
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > self._largest:
                raise _TooLarge
        return bytes(body)


class MessageBodies(BoundedBodies):
    """Reads the message that a POST carries, and refuses what is none."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST" and not _is_json(scope):
            await refuse(scope, send, 415, REFUSED, NOT_JSON, CLOSE)
        else:
            await super().__call__(scope, receive, send)

    async def pass_on(self, body: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            await super().pass_on(body, scope, receive, send)
            return
        message = parse(body)
        if isinstance(message, Unreadable):
            error = message.answer.error
            identified = {**scope, REQUEST_ID: message.answer.id}
            await refuse(identified, send, 400, error.code, error.message)
            return
        if isinstance(message, JSONRPCRequest):
            scope = {**scope, REQUEST_ID: message.id, METHOD: message.method}
        await super().pass_on(body, scope, receive, send)


def _is_json(scope: Scope) -> bool:
    kind = header(scope, b"content-type") or b""
    return kind.partition(b";")[0].strip().lower() == JSON


class _Disconnected(Exception):
    """The client is gone before its request was there."""


class _TooLarge(Exception):
    """The body is longer than it may be."""


class _Replay:
    """Receives a body that was read already, and after it whatever else comes."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._read = deque[Message]([{"type": "http.request", "body": body}])
        self._receive = receive

    async def __call__(self) -> Message:
        return self._read.popleft() if self._read else await self._receive()
