"""Observes HTTP requests: gives each an id, and tells of those that MCP does not tell of."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from opentelemetry.propagate import extract, get_global_textmap
from opentelemetry.trace import SpanKind, get_tracer

from memory_gateway.asgi import FIRST_ERROR, App, Message, Receive, Scope, Send, header
from memory_gateway.observation.call import CALL, Call, Via, current, request_id
from memory_gateway.observation.observer import Observer
from memory_gateway.observation.tracing import is_tracing

REQUEST_ID_HEADER = b"x-request-id"
TRANSPORTS: dict[str, Via] = {
    "/mcp": "mcp",
    "/mcp/": "mcp",
    "/sse": "sse",
    "/messages": "sse",
    "/messages/": "sse",
    "/ws": "ws",
}
PLAIN = frozenset({"/healthz", "/readyz", "/metrics"})
API = "/api/v1/"
RESOURCES = frozenset(
    {
        "fact",
        "facts",
        "search",
        "events",
        "namespace",
        "namespaces",
        "tokens",
        "stats",
        "version",
        "openapi.json",
    }
)
CARRYING = frozenset(name.encode() for name in get_global_textmap().fields)
"""The headers that carry a trace."""
FAULT = 500
OTHER = "other"

tracer = get_tracer("memory_gateway")


class HttpObserver:
    """Stands in front of everything else, so that refusals are seen too."""

    def __init__(self, app: App, observer: Observer) -> None:
        self._app = app
        self._observer = observer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        call = _call(scope)
        token = current.set(call)
        try:
            with _span(scope, call):
                await self._app({**scope, CALL: call}, receive, _Watch(send, call))
        finally:
            current.reset(token)
            self._tell(call)

    def _tell(self, call: Call) -> None:
        if call.told:
            return
        if call.via in ("rest", "door"):
            self._observer.finish(call)
        elif call.status is not None and call.status >= FIRST_ERROR:
            self._observer.refuse(call)


class _Watch:
    """Notes the status of the response and adds the id of the request to it."""

    def __init__(self, send: Send, call: Call) -> None:
        self._send = send
        self._call = call

    async def __call__(self, message: Message) -> None:
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            status: int = message["status"]
            self._call.status = status
            if status >= FIRST_ERROR:
                self._call.note("refused" if status < FAULT else "failed")
            identified = (REQUEST_ID_HEADER, self._call.id.encode())
            message = {**message, "headers": [*message.get("headers", ()), identified]}
        await self._send(message)


def _call(scope: Scope) -> Call:
    proposed = header(scope, REQUEST_ID_HEADER)
    peer: tuple[str, int] | None = scope.get("client")
    path: str = scope["path"]
    return Call(
        id=request_id(proposed.decode("latin-1") if proposed else None),
        name=_name(scope),
        via=TRANSPORTS.get(path, "rest" if path.startswith(API) else "door"),
        client=peer[0] if peer else None,
    )


def _name(scope: Scope) -> str:
    """A name out of a bounded set: paths hold keys, and clients can send any."""
    path: str = scope["path"]
    method: str = scope.get("method", "GET")
    if path in TRANSPORTS:
        return f"{method} {path.rstrip('/')}"
    if path in PLAIN:
        return path
    resource = path.removeprefix(API).split("/")[0]
    if not path.startswith(API) or resource not in RESOURCES:
        return OTHER
    if path == f"{API}events/stream":
        resource = "events/stream"
    return f"{method} {API}{resource}"


def _span(scope: Scope, call: Call) -> AbstractContextManager[Any]:
    if not is_tracing():
        return nullcontext()
    carrier = {
        name.decode("latin-1"): value.decode("latin-1")
        for name, value in scope["headers"]
        if name in CARRYING
    }
    return tracer.start_as_current_span(
        call.name,
        context=extract(carrier),
        kind=SpanKind.SERVER,
        attributes={"memory_bridge.request_id": call.id},
    )
