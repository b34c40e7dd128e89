"""Refuses what one principal asks beyond its share, before the body is read."""

import math
from collections import Counter

from memory_gateway.asgi import App, Receive, Scope, Send, header, refuse
from memory_gateway.bounds.rates import Rates
from memory_gateway.principals import PRINCIPAL, Principal

TOO_MANY_REQUESTS = -32005
TOO_FAST = "Too many requests: this token may send {rate:g} a second (MCP_RATE_PER_SECOND)."
TOO_MUCH = (
    "This token has {most} requests under way, which is the most (MCP_MAX_IN_FLIGHT): wait for"
    " answers before sending more."
)
SOON = [(b"retry-after", b"1")]


class RateLimit:
    """Answers 429 with `Retry-After` (whole seconds) to who sends faster than its rate."""

    def __init__(self, app: App, rates: Rates, per_second: float) -> None:
        self._app = app
        self._rates = rates
        self._message = TOO_FAST.format(rate=per_second)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        principal: Principal | None = scope.get(PRINCIPAL)
        missing = 0.0 if principal is None else await self._rates.take(principal.name)
        if missing:
            later = [(b"retry-after", str(math.ceil(missing)).encode())]
            await refuse(scope, send, 429, TOO_MANY_REQUESTS, self._message, later)
        else:
            await self._app(scope, receive, send)


class InFlight:
    """Answers 429 to who has too many requests under way. Streams are bounded elsewhere."""

    def __init__(self, app: App, most: int) -> None:
        self._app = app
        self._most = most
        self._message = TOO_MUCH.format(most=most)
        self._under_way: Counter[str] = Counter()

    @property
    def under_way(self) -> int:
        return self._under_way.total()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        principal: Principal | None = scope.get(PRINCIPAL)
        if principal is None or _is_stream(scope):
            await self._app(scope, receive, send)
        elif self._under_way[principal.name] >= self._most:
            await refuse(scope, send, 429, TOO_MANY_REQUESTS, self._message, SOON)
        else:
            await self._count(principal.name, scope, receive, send)

    async def _count(self, name: str, scope: Scope, receive: Receive, send: Send) -> None:
        self._under_way[name] += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._under_way[name] -= 1
            if not self._under_way[name]:
                del self._under_way[name]


def _is_stream(scope: Scope) -> bool:
    if scope["type"] != "http":
        return True
    if header(scope, b"mcp-method") == b"subscriptions/listen":
        return True
    accept = header(scope, b"accept") or b""
    return scope["method"] == "GET" and b"text/event-stream" in accept
