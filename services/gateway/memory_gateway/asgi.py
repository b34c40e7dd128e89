"""What stands in front of the protocol: checks and repairs of HTTP requests, in plain ASGI."""

import json
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from memory_gateway.observation.call import CALL, Call
from memory_gateway.problems import MEDIA_TYPE, is_api, problem

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = Iterable[tuple[bytes, bytes]]

REFUSED = -32600
FAILED = -32603
CUT_OFF = "The session ended before the answer; whether a write landed is unknown."
FIRST_ERROR = 400
REQUEST_ID = "memory_request_id"
"""Where a scope has the id of the JSON-RPC request, once it is known."""
METHOD = "memory_method"
"""Where a scope has the method of the JSON-RPC message."""
JSON = b"application/json"
PROBLEM = MEDIA_TYPE.encode()
EVENT_STREAM = b"text/event-stream"
BOTH = JSON + b", " + EVENT_STREAM
STREAMS = frozenset({EVENT_STREAM, b"text/*", b"*/*"})
ACCEPTABLE = STREAMS | {JSON, b"application/*"}


async def refuse(
    scope: Scope, send: Send, status: int, code: int, message: str, headers: Headers = ()
) -> None:
    """Answers with a JSON-RPC error object, and under /api with problem details; a WebSocket is
    refused before it is accepted."""
    prefix = "http"
    if scope["type"] == "websocket":
        if "websocket.http.response" not in scope.get("extensions", {}):
            await send({"type": "websocket.close", "code": 1008})
            return
        prefix = "websocket.http"
    if is_api(scope["path"]):
        kind, body = PROBLEM, _problem_body(scope, status, message)
    else:
        kind, body = JSON, error_body(code, message, scope.get(REQUEST_ID))
    length = str(len(body)).encode()
    full = [(b"content-type", kind), (b"content-length", length), *headers]
    await send({"type": f"{prefix}.response.start", "status": status, "headers": full})
    await send({"type": f"{prefix}.response.body", "body": body})


def _problem_body(scope: Scope, status: int, message: str) -> bytes:
    call: Call | None = scope.get(CALL)
    return problem(status, message, call.id if call else None).encode()


def error_body(code: int, message: str, number: int | str | None) -> bytes:
    error = {"code": code, "message": message}
    return json.dumps({"jsonrpc": "2.0", "id": number, "error": error}).encode()


def header(scope: Scope, name: bytes) -> bytes | None:
    return next((value for key, value in scope["headers"] if key == name), None)


class Tolerance:
    """Serves clients that are less exact than the protocol asks for.

    Any sensible `Accept` is served, and one that names JSON alone gets JSON instead of a stream
    of one event; `Content-Type` may be in capitals. `Last-Event-ID` asks for events that nobody
    keeps: a fresh stream answers it.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope = _tidied(scope)
        accepted = _accepted(scope)
        answer_with_json = bool(accepted) and accepted <= {JSON, b"application/*"}
        if not accepted or accepted & (STREAMS if _opens_stream(scope) else ACCEPTABLE):
            scope = _accepting_both(scope)
        if not _opens_stream(scope):
            number = scope.get(REQUEST_ID)
            send = StreamToJson(send, number) if answer_with_json else LateHead(send)
        await self._app(scope, receive, send)


def _opens_stream(scope: Scope) -> bool:
    """Whether the response goes on until somebody ends it, so that JSON cannot answer it."""
    return scope["method"] != "POST" or header(scope, b"mcp-method") == b"subscriptions/listen"


def _accepted(scope: Scope) -> set[bytes]:
    values = [value for name, value in scope["headers"] if name == b"accept"]
    kinds = (kind.partition(b";")[0].strip().lower() for kind in b",".join(values).split(b","))
    return {kind for kind in kinds if kind}


def _accepting_both(scope: Scope) -> Scope:
    replaced = {b"accept", b"last-event-id"}
    headers = [(name, value) for name, value in scope["headers"] if name not in replaced]
    return {**scope, "headers": [*headers, (b"accept", BOTH)]}


def _tidied(scope: Scope) -> Scope:
    """Blanks around a value are no part of it (RFC 9110, 5.5), and are left there after it."""
    headers = [
        (name, (value.lower() if name == b"content-type" else value).strip(b" \t"))
        for name, value in scope["headers"]
    ]
    return {**scope, "headers": headers}


class LateHead:
    """Begins an event stream no sooner than there is something in it.

    Where no response has begun a client takes a broken connection for what it is. Some wait for
    the rest of one that has begun, though nobody will send it, as long as their patience lasts.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and _is_event_stream(message):
            self._start = message
            return
        if self._start is not None:
            start, self._start = self._start, None
            await self._send(start)
        await self._send(message)


class StreamToJson:
    """Turns an event stream into the last message it carries, which is the response."""

    def __init__(self, send: Send, number: int | str | None) -> None:
        self._send = send
        self._number = number
        self._start: Message | None = None
        self._stream = bytearray()

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and _is_event_stream(message):
            self._start = message
        elif self._start is None:
            await self._send(message)
        elif message["type"] == "http.response.body":
            self._stream += message.get("body", b"")
            if not message.get("more_body", False):
                await self._finish(self._start)

    async def _finish(self, start: Message) -> None:
        events = [line[6:] for line in self._stream.splitlines() if line.startswith(b"data: ")]
        status = start["status"] if events else 503
        body = bytes(events[-1]) if events else error_body(FAILED, CUT_OFF, self._number)
        kept = [pair for pair in start["headers"] if pair[0] != b"content-type"]
        length = str(len(body)).encode()
        headers = [*kept, (b"content-type", JSON), (b"content-length", length)]
        await self._send({**start, "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})


class JsonErrors:
    """Gives refusals a JSON-RPC error object for a body, with the id of the request if known."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(
            scope, receive, _JsonErrorSend(scope, send) if scope["type"] == "http" else send
        )


class _JsonErrorSend:
    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope = scope
        self._send = send
        self._start: Message | None = None
        self._text = bytearray()

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] >= FIRST_ERROR:
            self._start = message
        elif self._start is None:
            await self._send(message)
        else:
            self._text += message.get("body", b"")
            if not message.get("more_body", False):
                await self._finish(self._start)

    async def _finish(self, start: Message) -> None:
        replaced = {b"content-type", b"content-length"}
        kept = [pair for pair in start["headers"] if pair[0] not in replaced]
        if _is_json(start):
            await self._identify(start, kept)
            return
        status: int = start["status"]
        message = self._text.decode("utf-8", "replace") or REASONS.get(status, "Refused.")
        await refuse(self._scope, self._send, status, REFUSED, message, kept)

    async def _identify(self, start: Message, kept: list[tuple[bytes, bytes]]) -> None:
        answer: dict[str, Any] = json.loads(self._text)
        if answer.get("id") is None:
            answer["id"] = self._scope.get(REQUEST_ID)
        body = json.dumps(answer).encode()
        headers = [*kept, (b"content-type", JSON), (b"content-length", str(len(body)).encode())]
        await self._send({**start, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})


REASONS = {
    405: "This method is not served here: use POST.",
    406: "Accept must allow application/json or text/event-stream.",
}


def _content_type(start: Message) -> bytes:
    return next((value for name, value in start["headers"] if name == b"content-type"), b"")


def _is_event_stream(start: Message) -> bool:
    return _content_type(start).startswith(EVENT_STREAM)


def _is_json(start: Message) -> bool:
    return _content_type(start).startswith(JSON)
