"""Refuses what one principal asks beyond its share, before the body is read."""

import math
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from memory_gateway.asgi import App, Headers, Receive, Scope, Send, header, refuse
from memory_gateway.bounds.rates import Rates
from memory_gateway.principals import PRINCIPAL, Principal

TOO_MANY_REQUESTS = -32005
TOO_FAST = "Too many requests: this token may send {rate:g} a second (MCP_RATE_PER_SECOND)."
TOO_MUCH = (
    "This token has {most} requests under way, which is the most (MCP_MAX_IN_FLIGHT): wait for"
    " answers before sending more."
)
TOO_MANY_STREAMS = (
    "This token has {most} streams open, which is the most (MCP_MAX_STREAMS): close one before"
    " opening another."
)
SOON = [(b"retry-after", b"1")]
LATER = [(b"retry-after", b"30")]
STREAMS = frozenset({"/mcp", "/mcp/", "/sse", "/api/v1/events/stream"})
"""What answers GET for as long as its client stays."""


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
    """Answers 429 to who has too many requests under way, or too many streams open.

    What is a stream is decided by where a request goes: a client that calls its request one, which
    can be for listening alone, is counted among the streams for as long as it lasts.
    """

    def __init__(self, app: App, most: int, most_streams: int) -> None:
        self._app = app
        self._requests = _Share(most, TOO_MUCH.format(most=most), SOON)
        self._streams = _Share(most_streams, TOO_MANY_STREAMS.format(most=most_streams), LATER)

    @property
    def under_way(self) -> int:
        """Requests, streams aside."""
        return self._requests.taken.total()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        principal: Principal | None = scope.get(PRINCIPAL)
        if principal is None:
            await self._app(scope, receive, send)
            return
        share = self._streams if _is_stream(scope) else self._requests
        if share.is_used_up(principal.name):
            await refuse(scope, send, 429, TOO_MANY_REQUESTS, share.refusal, share.when)
            return
        with share.one_more(principal.name):
            await self._app(scope, receive, send)


@dataclass
class _Share:
    """What each principal has of something of which it may have `most` at once."""

    most: int
    refusal: str
    when: Headers
    taken: Counter[str] = field(default_factory=Counter[str])

    def is_used_up(self, name: str) -> bool:
        return self.taken[name] >= self.most

    @contextmanager
    def one_more(self, name: str) -> Generator[None]:
        self.taken[name] += 1
        try:
            yield
        finally:
            self.taken[name] -= 1
            if not self.taken[name]:
                del self.taken[name]


def _is_stream(scope: Scope) -> bool:
    if scope["type"] != "http":
        return True
    if scope["method"] == "GET":
        return scope["path"] in STREAMS
    return header(scope, b"mcp-method") == b"subscriptions/listen"
