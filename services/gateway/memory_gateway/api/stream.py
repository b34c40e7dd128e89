"""`/api/v1/events/stream`: events as they happen, to whoever keeps reading."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from json import dumps
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from sse_starlette.event import ServerSentEvent
from sse_starlette.sse import EventSourceResponse
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from memory_gateway.api.strict import query_pairs
from memory_gateway.api.words import Flag, WholeText
from memory_gateway.calls import Calls
from memory_gateway.context import Context
from memory_gateway.live import Live, News, Trail
from memory_gateway.principals import Identity, Principal, principal_of
from memory_store.contract import (
    READ_KINDS,
    Busy,
    Event,
    EventFeed,
    EventKind,
    Invalid,
    StoreError,
)

MOST_STREAMS = 1_024
MOST_EVENTS = 1_000
MOST_BYTES = 1024 * 1024
AT_ONCE = 100
HEARTBEAT_SECONDS = 15
TOO_MANY = f"The server has {MOST_STREAMS} such streams open, which is the most."
TOO_SLOW = "The client did not read for so long that too much waited for it: go on from `after`."
STOPPING = "The server is stopping: go on from `after`."

EventId = Annotated[int, WholeText, Field(ge=0)]


class StreamQuery(BaseModel):
    """What may be asked for. `kinds` may be there repeatedly, and one that is a read includes
    reads; `after` is the event after which to begin."""

    model_config = ConfigDict(extra="forbid")

    namespace: str | None = None
    prefix: str = ""
    kinds: frozenset[EventKind] = frozenset()
    include_reads: Flag = False
    after: EventId | None = None


def _read(request: Request) -> StreamQuery:
    """The query; a `Last-Event-ID` stands above its `after`. Raises `Invalid`."""
    given: dict[str, Any] = {}
    for name, value in query_pairs(request):
        if name == "kinds":
            given.setdefault(name, []).append(value)
        elif name in given:
            raise Invalid(f"`{name[:60]}` was given more than once.", argument=name[:60])
        else:
            given[name] = value
    if last := request.headers.get("last-event-id"):
        given["after"] = last
    try:
        return StreamQuery.model_validate(given)
    except ValidationError as error:
        raise _invalid(error) from None


def _invalid(error: ValidationError) -> Invalid:
    first = error.errors(include_url=False, include_input=False)[0]
    name = str(first["loc"][0])[:60]
    if first["type"] == "extra_forbidden":
        allowed = ", ".join(StreamQuery.model_fields)
        message = f"`{name}` is not a parameter of this stream; allowed: {allowed}."
    else:
        message = f"`{name}`: {first['msg'].removeprefix('Value error, ')}."
    return Invalid(message, argument=name)


@dataclass(frozen=True)
class Wanted:
    """Which events a stream tells; `namespaces` None stands for all, tokens' events included."""

    namespaces: frozenset[str] | None
    prefix: str
    kinds: frozenset[EventKind]
    include_reads: bool

    def admits(self, event: Event) -> bool:
        if self.namespaces is not None and event.namespace not in self.namespaces:
            return False
        if self.kinds and event.kind not in self.kinds:
            return False
        return not self.prefix or (event.key or "").startswith(self.prefix)

    def page(self, after: int, context: Context) -> tuple[EventFeed, bool]:
        """Events after that one, not yet chosen, and whether there may be more."""
        places = (None,) if self.namespaces is None else sorted(self.namespaces)
        limit = max(1, AT_ONCE // max(1, len(places)))
        follow = partial(context.store.event_follow, after)
        feeds = [follow(place, limit, 0.0, self.include_reads) for place in places]
        reached = min((feed.after for feed in feeds), default=after)
        found = [event for feed in feeds for event in feed.events if event.id <= reached]
        found.sort(key=lambda event: event.id)
        more = any(len(feed.events) == limit for feed in feeds)
        return EventFeed(events=tuple(found), after=reached), more


def _wanted(principal: Principal, query: StreamQuery) -> Wanted:
    """Raises `Forbidden`."""
    namespaces = principal.namespaces
    if query.namespace is not None:
        namespaces = frozenset((query.namespace,))
    for namespace in (None,) if namespaces is None else namespaces:
        principal.require("read", namespace)
    return Wanted(
        namespaces,
        query.prefix,
        query.kinds,
        include_reads=query.include_reads or not query.kinds.isdisjoint(READ_KINDS),
    )


class Buffer:
    """The events that wait for a client, bounded. With one too many it ends, and they are lost to
    this stream: the client finds them again by the number of the last one that arrived."""

    def __init__(self) -> None:
        self._waiting: deque[News] = deque()
        self._bytes = 0
        self._ready = asyncio.Event()
        self.ended: str | None = None
        """Why, in a sentence for the client."""

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, news: News) -> None:
        if self.ended:
            return
        self._waiting.append(news)
        self._bytes += len(news.frame)
        if self._bytes > MOST_BYTES or len(self._waiting) > MOST_EVENTS:
            self._waiting.clear()
            self.ended = TOO_SLOW
        self._ready.set()

    def end(self, reason: str) -> None:
        """Lets what waits be taken, and nothing more come."""
        self.ended = self.ended or reason
        self._ready.set()

    async def take(self) -> News | None:
        """Waits for an event; None once the buffer has ended."""
        while not self._waiting:
            if self.ended:
                return None
            self._ready.clear()
            await self._ready.wait()
        news = self._waiting.popleft()
        self._bytes -= len(news.frame)
        return news


class TrailStream:
    """One client's stream: first what it has missed, from the store, then what happens."""

    def __init__(self, wanted: Wanted, trail: Trail, calls: Calls, identity: Identity) -> None:
        self._wanted = wanted
        self._trail = trail
        self._calls = calls
        self._identity = identity
        self._live = False
        self._told: int | None = None
        self.buffer = Buffer()

    def heartbeat(self) -> ServerSentEvent:
        """Tells how far the stream is, however little of what happens is wanted on it."""
        position = self._trail.position
        if self._live and not self.buffer and position is not None:
            self._told = max(self._told or 0, position)
        return ServerSentEvent(comment="heartbeat", id=self._number())

    async def frames(self, after: int | None) -> AsyncGenerator[bytes]:
        """The stream as server-sent events; the last one says why it ends."""
        self._told = after
        try:
            async for frame in self._catch_up():
                yield frame
            await self._trail.add(self._hear)
            async for frame in self._catch_up():
                yield frame
            self._told = self._trail.position if self._told is None else self._told
            self._live = True
            yield f": following\nid: {self._number() or ''}\n\n".encode()
            while (news := await self.buffer.take()) is not None:
                if self._told is None or news.event.id > self._told:
                    self._told = news.event.id
                    yield news.frame
        except StoreError as error:
            self.buffer.end(error.message)
        finally:
            self._trail.discard(self._hear)
        yield self._farewell()

    def _hear(self, news: News) -> None:
        if self._wanted.admits(news.event):
            self.buffer.put(news)

    async def _catch_up(self) -> AsyncGenerator[bytes]:
        """What came after the event that was told last; raises `StoreError`."""
        more, after = self._told is not None, self._told or 0
        while more and not self.buffer.ended:
            question = partial(self._wanted.page, after)
            feed, more = await self._calls.ask(self._identity, question, reading=True)
            for event in filter(self._wanted.admits, feed.events):
                self._told = event.id
                yield News(event).frame
            self._told = after = feed.after

    def _number(self) -> str | None:
        return None if self._told is None else str(self._told)

    def _farewell(self) -> bytes:
        told = {"reason": self.buffer.ended, "after": self._told}
        return f"event: dropped\ndata: {dumps(told, ensure_ascii=False)}\n\n".encode()


class TrailStreams:
    """The streams that are open, which end together when the server stops."""

    def __init__(self, live: Live, calls: Calls) -> None:
        self._live = live
        self._calls = calls
        self._open: set[TrailStream] = set()
        self._closed = False
        self.dropped = 0

    @property
    def count(self) -> int:
        return len(self._open)

    def close(self) -> None:
        self._closed = True
        for stream in self._open:
            stream.buffer.end(STOPPING)

    def route(self, path: str) -> Route:
        return Route(path, self._respond)

    async def _respond(self, request: Request) -> Response:
        """Raises `Invalid`, `Forbidden` and `Busy`."""
        query, principal = _read(request), principal_of(request)
        wanted = _wanted(principal, query)
        if len(self._open) >= MOST_STREAMS:
            raise Busy(TOO_MANY)
        trail = self._live.trail(include_reads=wanted.include_reads)
        identity = self._calls.identify(principal, None, None)
        stream = TrailStream(wanted, trail, self._calls, identity)
        return EventSourceResponse(
            self._serve(stream, query.after),
            ping=HEARTBEAT_SECONDS,
            ping_message_factory=stream.heartbeat,
            sep="\n",
        )

    async def _serve(self, stream: TrailStream, after: int | None) -> AsyncGenerator[bytes]:
        self._open.add(stream)
        if self._closed:
            stream.buffer.end(STOPPING)
        try:
            async with aclosing(stream.frames(after)) as frames:
                async for frame in frames:
                    yield frame
        finally:
            self._open.discard(stream)
            self.dropped += stream.buffer.ended == TOO_SLOW
