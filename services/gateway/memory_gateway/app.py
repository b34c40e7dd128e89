"""The HTTP application: MCP behind its door, and two questions about health."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio.to_thread
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from memory_gateway.asgi import HostCheck, JsonErrors, Receive, Scope, Send, Tolerance
from memory_gateway.auth import OPEN_PATHS, BearerDoor, Verifier
from memory_gateway.bodies import MessageBodies
from memory_gateway.mcp import MemoryServer
from memory_gateway.memory import Memory
from memory_gateway.sessions import Sessions
from memory_gateway.streams import StandingStreams

logger = logging.getLogger(__name__)

LARGEST_BODY = 4 * 1024 * 1024
BODY_SECONDS = 30.0
SESSION_IDLE_SECONDS = 12 * 3600
LOCAL_HOSTS = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True)
class Door:
    """Who may come in: what proves a caller, the host names and origins that are served, and how
    many sessions there may be."""

    verifier: Verifier
    hosts: Iterable[str] = ()
    origins: Iterable[str] = ()
    most_sessions: int = 1_000


class Application:
    """The whole application, served once: its session manager cannot be started again."""

    def __init__(self, server: MemoryServer, memory: Memory, door: Door) -> None:
        self._server = server
        self._manager = StreamableHTTPSessionManager(
            server.server,
            max_request_body_size=LARGEST_BODY,
            session_idle_timeout=SESSION_IDLE_SECONDS,
            max_sessions=None,  # Sessions knows better what to do when there are too many
        )
        self._streams = StandingStreams(StreamableHTTPASGIApp(self._manager))
        tolerant = JsonErrors(Tolerance(self._streams))
        bounded = Sessions(tolerant, door.most_sessions)
        endpoint = MessageBodies(bounded, LARGEST_BODY, BODY_SECONDS)
        routes = [Route(path, endpoint) for path in ("/mcp", "/mcp/")]
        health = [Route("/healthz", _healthz), Route("/readyz", _readiness(memory))]
        app = Starlette(routes=[*routes, *health], lifespan=self._lifespan)
        app.router.redirect_slashes = False
        hosts = [*LOCAL_HOSTS, *door.hosts]
        self._app = HostCheck(BearerDoor(app, door.verifier), hosts, door.origins, OPEN_PATHS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    def close_streams(self) -> None:
        """Ends what would otherwise go on for ever: subscriptions and the streams of sessions."""
        self._server.close_streams()
        self._streams.close()

    async def give_up(self) -> None:
        """Has every call under way answered soon."""
        await self._server.give_up()

    @asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncGenerator[None]:
        async with self._manager.run():
            yield


async def _healthz(_request: Request) -> JSONResponse:
    return JSONResponse({"status": "alive"})


def _readiness(memory: Memory) -> Callable[[Request], Awaitable[JSONResponse]]:
    """Ready means that the store answers."""

    def ask() -> None:
        memory.store.namespace_list()

    async def readyz(_request: Request) -> JSONResponse:
        try:
            await anyio.to_thread.run_sync(ask)
        except Exception:
            logger.exception("the store does not answer")
            return JSONResponse({"status": "the store does not answer"}, status_code=503)
        return JSONResponse({"status": "ready"})

    return readyz
