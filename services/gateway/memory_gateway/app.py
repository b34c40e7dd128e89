"""The HTTP application: MCP and the HTTP interface behind one door, and what observes them."""

from collections.abc import AsyncGenerator, Collection, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import anyio
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.routing import BaseRoute, Route, WebSocketRoute

from memory_gateway.api.interface import PREFIX, HttpInterface
from memory_gateway.api.stream import TrailStreams
from memory_gateway.asgi import REFUSED, JsonErrors, Receive, Scope, Send, Tolerance, refuse
from memory_gateway.auth import OPEN_PATHS, BearerDoor, proved_only
from memory_gateway.bodies import LARGEST_BODY, BoundedBodies, MessageBodies
from memory_gateway.bounds.limits import InFlight, RateLimit
from memory_gateway.bounds.rates import LocalRates, Rate, Rates
from memory_gateway.cors import CrossOrigin
from memory_gateway.cut_off import CutOff
from memory_gateway.health import health_routes
from memory_gateway.hosts import LOCAL_HOSTS, HostCheck, HostNames
from memory_gateway.mcp import MemoryServer
from memory_gateway.memory import Memory
from memory_gateway.observation.http import HttpObserver
from memory_gateway.observation.machine import machine_gauges
from memory_gateway.observation.metrics import store_gauges
from memory_gateway.observation.observer import Observer
from memory_gateway.observation.route import metrics_route
from memory_gateway.proxies import behind_proxies
from memory_gateway.sessions import Sessions
from memory_gateway.streams import StandingStreams
from memory_gateway.tokens import Verifier
from memory_gateway.transports.duplex import Duplexes
from memory_gateway.transports.sse import EventStreams
from memory_gateway.transports.websocket import WebSockets

BODY_SECONDS = 30.0
SESSION_IDLE_SECONDS = 12 * 3600
DEFAULT_RATE = Rate(per_second=300, burst=1_000)
MESSAGES = "/messages"
NOT_FOUND = "Nothing is served at this address; MCP is at /mcp."


@dataclass(frozen=True)
class Door:
    """Who may come in, and how much each may ask: what proves a caller, the host names and
    origins that are served, the proxies that say whom they serve, and the bounds."""

    verifier: Verifier
    hosts: Iterable[str] = ()
    origins: Collection[str] = ()
    proxies: Collection[str] = ()
    most_sessions: int = 1_000
    rates: Rates = field(default_factory=partial(LocalRates, DEFAULT_RATE))
    rate: Rate = DEFAULT_RATE
    most_in_flight: int = 256
    most_streams: int = 256


class Application:
    """The whole application, served once: its session manager cannot be started again."""

    def __init__(
        self, server: MemoryServer, memory: Memory, door: Door, observer: Observer
    ) -> None:
        self._server = server
        server.server.middleware.append(proved_only)
        self._manager = StreamableHTTPSessionManager(
            server.server,
            max_request_body_size=LARGEST_BODY,
            session_idle_timeout=SESSION_IDLE_SECONDS,
            max_sessions=None,  # Sessions knows better what to do when there are too many
        )
        self._streams = StandingStreams(StreamableHTTPASGIApp(self._manager), server.sessions)
        tolerant = JsonErrors(Tolerance(self._streams))
        self._sessions = Sessions(tolerant, door.most_sessions)
        endpoint = MessageBodies(self._sessions, LARGEST_BODY, BODY_SECONDS)
        self._duplexes = Duplexes(server.server)
        self._trail_streams = TrailStreams(server.live, server.calls)
        routes = [
            *(Route(path, endpoint) for path in ("/mcp", "/mcp/")),
            *self._other_transports(door.rates),
            *self._http_interface(),
        ]
        health = health_routes(memory)
        metrics = Route("/metrics", metrics_route(observer.metrics))
        app = Starlette(routes=[*routes, *health, metrics], lifespan=self._lifespan)
        app.router.redirect_slashes = False
        app.router.default = _not_found
        observer.metrics.watch(store_gauges(memory.store))
        observer.metrics.watch(self._gauges)
        observer.metrics.watch(machine_gauges())
        self._in_flight = InFlight(app, door.most_in_flight, door.most_streams)
        limited = RateLimit(self._in_flight, door.rates, door.rate.per_second)
        hosts = HostNames((*LOCAL_HOSTS, *door.hosts))
        self._door = BearerDoor(limited, door.verifier)
        checked = HostCheck(self._door, hosts, door.origins, OPEN_PATHS)
        observed = HttpObserver(CutOff(checked), observer)
        self._app = CrossOrigin(behind_proxies(observed, door.proxies), door.origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    def close_streams(self) -> None:
        """Ends what would otherwise go on for ever: subscriptions and the streams of sessions."""
        self._server.close_streams()
        self._streams.close()
        self._duplexes.close()
        self._trail_streams.close()

    async def give_up(self) -> None:
        """Has every call under way answered soon."""
        await self._server.give_up()

    def _gauges(self) -> Iterator[tuple[str, str, float]]:
        yield "sessions", "Sessions of clients that begin with a handshake.", self._sessions.count
        yield "streams", "GET streams of sessions that are open.", self._streams.count
        yield "in_flight", "Requests under way, streams aside.", self._in_flight.under_way
        yield "calls_waiting", "Calls in worker threads or waiting for one.", self._server.waiting
        for name, count in self._server.counts().items():
            yield f"subscribers_{name}", "Who hears of changes, and what of.", count
        yield "subscribers_event_streams", "Event streams that are open.", self._trail_streams.count
        dropped = self._server.dropped + self._streams.dropped + self._trail_streams.dropped
        yield "subscribers_dropped", "Streams ended because nobody read them.", dropped

    def _other_transports(self, rates: Rates) -> Iterator[BaseRoute]:
        events = EventStreams(self._duplexes, self._sessions, MESSAGES)
        messages = MessageBodies(events.messages, LARGEST_BODY, BODY_SECONDS)
        sockets = WebSockets(self._duplexes, self._sessions, rates)
        yield Route("/sse", events)
        yield from (Route(path, messages) for path in (MESSAGES, f"{MESSAGES}/"))
        yield from (Route("/ws", sockets), WebSocketRoute("/ws", sockets))

    def _http_interface(self) -> Iterator[BaseRoute]:
        streams = [self._trail_streams.route(f"{PREFIX}/events/stream")]
        interface = HttpInterface(self._server.calls, streams)
        bounded = BoundedBodies(interface, LARGEST_BODY, BODY_SECONDS)
        yield from (Route(path, bounded) for path in ("/api", "/api/{rest:path}"))

    @asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncGenerator[None]:
        async with self._manager.run(), anyio.create_task_group() as tasks:
            tasks.start_soon(self._door.watch)
            yield
            tasks.cancel_scope.cancel()


async def _not_found(scope: Scope, _receive: Receive, send: Send) -> None:
    await refuse(scope, send, 404, REFUSED, NOT_FOUND)
