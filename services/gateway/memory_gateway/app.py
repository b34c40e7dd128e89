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

from memory_gateway.asgi import App, HostCheck, JsonErrors, Tolerance
from memory_gateway.auth import OPEN_PATHS, BearerDoor, Verifier
from memory_gateway.mcp import MemoryServer
from memory_gateway.memory import Memory

logger = logging.getLogger(__name__)

LARGEST_BODY = 4 * 1024 * 1024
SESSION_IDLE_SECONDS = 12 * 3600
LOCAL_HOSTS = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True)
class Door:
    """Who may come in: what proves a caller, and the host names and origins that are served."""

    verifier: Verifier
    hosts: Iterable[str] = ()
    origins: Iterable[str] = ()


def create_app(server: MemoryServer, memory: Memory, door: Door) -> App:
    """The whole application, served once: its session manager cannot be started again."""
    manager = StreamableHTTPSessionManager(
        server.server, max_request_body_size=LARGEST_BODY, session_idle_timeout=SESSION_IDLE_SECONDS
    )
    endpoint = JsonErrors(Tolerance(StreamableHTTPASGIApp(manager)))
    routes = [Route(path, endpoint) for path in ("/mcp", "/mcp/")]
    health = [Route("/healthz", _healthz), Route("/readyz", _readiness(memory))]

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncGenerator[None]:
        async with manager.run():
            yield

    app = Starlette(routes=[*routes, *health], lifespan=lifespan)
    app.router.redirect_slashes = False
    hosts = [*LOCAL_HOSTS, *door.hosts]
    return HostCheck(BearerDoor(app, door.verifier), hosts, door.origins, OPEN_PATHS)


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
