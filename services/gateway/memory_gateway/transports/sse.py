"""MCP over a stream of events and POSTs, as clients of before March 2025 speak it."""

import secrets
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

import anyio
from starlette.requests import Request

from memory_gateway.asgi import EVENT_STREAM, REFUSED, Receive, Scope, Send, refuse
from memory_gateway.frames import parse
from memory_gateway.principals import PRINCIPAL, Principal
from memory_gateway.sessions import Sessions
from memory_gateway.transports.duplex import GONE, Duplex, Duplexes

KEEP_ALIVE_SECONDS = 15.0
PING = b": ping\r\n\r\n"
HEADERS = [
    (b"content-type", EVENT_STREAM),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]
UNKNOWN_SESSION = "There is no such session (any more): open a new stream with GET /sse."
GET_ONLY = "A stream is opened with GET; this server speaks streamable HTTP too, at /mcp."
POST_ONLY = "Messages are sent with POST."


@dataclass(frozen=True)
class _Session:
    principal: Principal
    duplex: Duplex


class EventStreams:
    """Serves the streams, and with `messages` what their clients send."""

    def __init__(self, duplexes: Duplexes, sessions: Sessions, messages_path: str) -> None:
        self._duplexes = duplexes
        self._as_session = sessions.standing(self._stream)
        self._messages_path = messages_path
        self._sessions: dict[str, _Session] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "GET":
            await self._as_session(scope, receive, send)
        else:
            await refuse(scope, send, 405, REFUSED, GET_ONLY, [(b"allow", b"GET")])

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._session(scope[PRINCIPAL]) as (number, duplex):
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            place = f"{scope.get('root_path', '')}{self._messages_path}?session_id={number}"
            await send(_part(_event("endpoint", place)))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(duplex.run)
                tasks.start_soon(_watch, receive, tasks.cancel_scope)
                await _send_all(duplex, send)
                tasks.cancel_scope.cancel()
            await send({"type": "http.response.body", "body": b""})

    @contextmanager
    def _session(self, principal: Principal) -> Generator[tuple[str, Duplex]]:
        number = secrets.token_hex(16)
        with self._duplexes.one_more() as duplex:
            self._sessions[number] = _Session(principal, duplex)
            try:
                yield number, duplex
            finally:
                del self._sessions[number]

    async def messages(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Whose body was read already, and is one message."""
        if scope["method"] != "POST":
            await refuse(scope, send, 405, REFUSED, POST_ONLY, [(b"allow", b"POST")])
            return
        session = self._sessions.get(_session_id(scope))
        if session is None or session.principal.name != scope[PRINCIPAL].name:
            await refuse(scope, send, 404, REFUSED, UNKNOWN_SESSION)
            return
        body = await Request(scope, receive).body()
        try:
            await session.duplex.take(parse(body), Request(scope))
        except GONE:
            await refuse(scope, send, 404, REFUSED, UNKNOWN_SESSION)
            return
        headers = [(b"content-type", b"text/plain"), (b"content-length", b"8")]
        await send({"type": "http.response.start", "status": 202, "headers": headers})
        await send({"type": "http.response.body", "body": b"Accepted"})


def _session_id(scope: Scope) -> str:
    query = parse_qs(scope["query_string"].decode("latin-1"))
    return query.get("session_id", [""])[0]


async def _watch(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def _send_all(duplex: Duplex, send: Send) -> None:
    """Returns when the connection is over."""
    while True:
        text: str | None = ""
        with anyio.move_on_after(KEEP_ALIVE_SECONDS):
            text = await duplex.next_outgoing()
        if text is None:
            return
        await send(_part(_event("message", text) if text else PING))


def _event(kind: str, text: str) -> bytes:
    return f"event: {kind}\r\ndata: {text}\r\n\r\n".encode()


def _part(body: bytes) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": True}
