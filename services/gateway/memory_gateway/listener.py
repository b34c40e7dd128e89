"""Serves the application on a socket until a signal, with streams open or not."""

import asyncio
import logging
import signal
import socket
from types import FrameType

import uvicorn
from sse_starlette.sse import AppStatus

from memory_gateway.app import Application
from memory_gateway.bodies import LARGEST_BODY
from memory_gateway.connections import (
    SlowReader,
    WebSocketConnection,
    allow_connections,
    http_connections,
)
from memory_gateway.greeting import tell

GRACE_SECONDS = 3
ANSWER_SECONDS = 2.3
"""How long calls may go on. The rest of the grace is for telling those that have not ended."""
KEEP_ALIVE_SECONDS = 120  # longer than a reverse proxy keeps its connections, so that it closes
PING_SECONDS = 8.0  # some reverse proxies drop a WebSocket that was quiet for nine
PONG_SECONDS = 30.0
BACKLOG = 2048
SEND_BUFFER = 256 * 1024
"""What the system keeps for a client that does not read: by itself it would be megabytes."""


class CannotListen(Exception):
    """The address is taken or not this machine's. The message says so."""


def listen(host: str, port: int) -> socket.socket:
    """Raises `CannotListen`."""
    try:
        family, _, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
        )[0]
        listening = socket.socket(family, socket.SOCK_STREAM, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        listening.bind(address)
        listening.listen(BACKLOG)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "this is no host name"
        raise CannotListen(
            f"Cannot listen on {host} port {port}: {reason}. Set MCP_HTTP_PORT to a free"
            " port (0 picks one) or MCP_HTTP_HOST to an address of this machine."
        ) from error
    return listening


def url_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/mcp"


def _is_told(record: logging.LogRecord) -> bool:
    """uvicorn takes the refusal of a WebSocket for a fault if it has a body, and tells the query
    of an address, in which there may be what is secret."""
    if isinstance(record.args, tuple):
        record.args = tuple(
            argument.partition("?")[0] if isinstance(argument, str) else argument
            for argument in record.args
        )
    return record.getMessage() != "ASGI callable returned without completing handshake."


def serve_http(app: Application, listening: socket.socket) -> None:
    """Returns after SIGTERM or SIGINT, when the calls under way are answered."""
    AppStatus.disable_automatic_graceful_drain()  # it would cut off the answers that are due
    log = logging.getLogger("uvicorn.error")
    log.addFilter(_is_told)
    # Below that it tells the headers of WebSockets, the token among them.
    log.setLevel(max(log.getEffectiveLevel(), logging.INFO))
    config = uvicorn.Config(
        app,
        http=http_connections(allow_connections()),
        ws=WebSocketConnection,
        ws_max_size=LARGEST_BODY,
        ws_ping_interval=PING_SECONDS,
        ws_ping_timeout=PONG_SECONDS,
        ws_per_message_deflate=False,
        proxy_headers=False,  # the application knows which proxies to believe
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    _Server(config, app).run(sockets=[listening])


class _Server(uvicorn.Server):
    """Ends streams as soon as it stops, and calls before the grace is over: uvicorn waits for
    every response, and then cuts off those that are not complete."""

    def __init__(self, config: uvicorn.Config, app: Application) -> None:
        super().__init__(config)
        self._app = app

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in sockets or []:
            tell(f"listening on {url_of(listening)}\n")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stops, and at a second interrupt at once.

        uvicorn's own would raise the signal again after the last answer, and with it end the
        process before the store is closed.
        """
        del frame
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.close_streams()
        giving_up = asyncio.create_task(self._give_up())
        await super().shutdown(sockets)
        giving_up.cancel()

    async def _give_up(self) -> None:
        await asyncio.sleep(ANSWER_SECONDS)
        SlowReader.cut_off_all()
        await self._app.give_up()
