"""Connections of clients, bounded in number, in the size of a request and in time."""

import asyncio
import itertools
import re
import resource
from asyncio.transports import BaseTransport
from typing import ClassVar, cast

from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from memory_gateway.asgi import FAILED, REFUSED, error_body
from memory_gateway.lingering import LingeringTransport

MOST = 4_000
SPARE_DESCRIPTORS = 128
"""What a process needs besides connections: its database, its own logs and clients."""
LARGEST_HEAD = 32 * 1024
LARGEST_REQUEST = 16 * 1024 * 1024
"""Of head, body and the frames of its chunks together; what is taken of a body is far less."""
HEAD_SECONDS = 10.0
BODY_SECONDS = 60.0
STALLED_SECONDS = 30.0
MOST_UNTAKEN = 64 * 1024 * 1024
"""Bytes that wait for clients, all together. A connection alone never has too many."""

_ABSOLUTE = re.compile(rb"[A-Za-z]+://(?P<host>[^/?#]*)(?P<rest>.*)")
_OTHER_UPGRADE = re.compile(
    rb"\r\nupgrade:(?=[^\r\n]*\r\n)(?![ \t]*websocket[ \t]*\r\n)", re.IGNORECASE
)
_ticks = itertools.count()
"""The order in which connections became idle, which is finer than any clock."""

BAD = "This is not a valid HTTP/1.1 request."
NO_HANDSHAKE = (
    "This is not the handshake of a WebSocket, or its head has too many or too long fields."
)
LARGE_HEAD = f"The head of the request is longer than {LARGEST_HEAD} bytes."
LARGE = f"The request is longer than {LARGEST_REQUEST} bytes."
LATE = "The request did not arrive in time."
FULL = "The server has as many connections as it may have: try again later."


def allow_connections() -> int:
    """Raises the process's limit of open files as far as allowed; returns how many connections
    that leaves room for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST + SPARE_DESCRIPTORS
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return MOST
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return max(wanted - SPARE_DESCRIPTORS, 1)


def http_connections(most: int) -> type["HttpConnection"]:
    """The class of connections of a server that has up to `most` of them."""

    class Connection(HttpConnection):
        most_connections = most

    return Connection


class HttpConnection(HttpToolsProtocol):
    """A connection on which requests must arrive whole and in time, and responses be taken.

    For one connection too many, that which has waited longest for a request is closed.
    """

    most_connections = MOST

    def connection_made(self, transport: BaseTransport) -> None:
        self._between = True
        self._broken = False
        super().connection_made(LingeringTransport(transport, self._is_unread))
        self._reader = SlowReader(self.transport)
        self._lateness: asyncio.TimerHandle | None = None
        self._in_head = False
        self._upgraded = False
        self._received = 0
        self.idle_since: int | None = next(_ticks)
        self._expect(HEAD_SECONDS)
        self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_nothing()
        self._reader.resume()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(_without_upgrade(data) if self._between else data)
        if self._upgraded or self.transport.is_closing():
            return
        self._received += len(data)
        if self._in_head and self._received > LARGEST_HEAD:
            self.refuse(431, REFUSED, LARGE_HEAD)
        elif self._received > LARGEST_REQUEST:
            self.refuse(413, REFUSED, LARGE)
        elif self._lateness is None and self.idle_since is not None:
            self._expect(HEAD_SECONDS)

    def handle_websocket_upgrade(self) -> None:
        self._upgraded = True
        self._expect_nothing()
        self.transport = cast("LingeringTransport", self.transport).bare
        super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        """Whatever the parser says, and in whatever words."""
        del msg
        self._broken = True
        self.refuse(400, REFUSED, BAD)

    def on_message_begin(self) -> None:
        self._between, self._in_head, self._received = False, True, 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Fields after a chunked body are dropped: they would pass for fields of the head."""
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self.idle_since = None
        self._name_host()
        self._expect(BODY_SECONDS)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._between = True
        self._expect_nothing()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if not self.pipeline:
            self.idle_since = next(_ticks)
        super().on_response_complete()

    def pause_writing(self) -> None:
        self._reader.pause()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._reader.resume()
        super().resume_writing()

    def refuse(self, status: int, code: int, message: str) -> None:
        """Closes the connection; says why unless a response is under way."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if cycle is None or cycle.response_complete or not cycle.response_started:
            self.transport.write(_refusal(status, code, message))
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
        self.transport.close()

    def _is_unread(self) -> bool:
        return self._broken or not self._between

    def _name_host(self) -> None:
        """A request to a proxy names the host in its target, which counts and not the field."""
        if named := _ABSOLUTE.fullmatch(self.url):
            self.headers[:] = [pair for pair in self.headers if pair[0] != b"host"]
            self.headers.append((b"host", named["host"]))
            self.url = b"/" + named["rest"].removeprefix(b"/")

    def _make_room(self) -> None:
        if len(self.connections) <= self.most_connections:
            return
        others = [other for other in self.connections if isinstance(other, HttpConnection)]
        idle = {it.idle_since: it for it in others if it.idle_since is not None}
        longest = idle[min(idle)]
        if longest is self:
            self.refuse(503, FAILED, FULL)
        else:
            longest.transport.close()

    def _expect(self, seconds: float) -> None:
        self._expect_nothing()
        self._lateness = self.loop.call_later(seconds, self._is_late)

    def _expect_nothing(self) -> None:
        if self._lateness is not None:
            self._lateness.cancel()
            self._lateness = None

    def _is_late(self) -> None:
        if self._received:
            self.refuse(408, REFUSED, LATE)
        else:
            self.transport.close()


class WebSocketConnection(WebSocketsSansIOProtocol):
    """A WebSocket whose client must take what it is sent.

    When the server stops, the application closes it, after the last answers.
    """

    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(LingeringTransport(transport, self._is_unread))
        self._reader = SlowReader(self.transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._reader.resume()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """The head comes whole, since it was read as HTTP before."""
        if self.transport.is_closing():
            return
        super().data_received(data)
        if not self.handshake_initiated:
            self.transport.write(_refusal(400, REFUSED, NO_HANDSHAKE))
            self.transport.close()

    def pause_writing(self) -> None:
        self._reader.pause()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._reader.resume()
        super().resume_writing()

    def shutdown(self) -> None:
        if self.close_sent or not self.handshake_complete:
            super().shutdown()

    def _is_unread(self) -> bool:
        return self.conn.parser_exc is not None


class SlowReader:
    """Cuts off a client that takes nothing of what waits for it, and when too much waits for all
    of them together those that have taken nothing for longest."""

    _waited_for: ClassVar[dict["SlowReader", None]] = {}
    """Those for whom something waits, in the order of when they were last seen to take any."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._left = 0
        self._look: asyncio.TimerHandle | None = None

    @property
    def untaken(self) -> int:
        return self._transport.get_write_buffer_size()

    def pause(self) -> None:
        self.resume()
        self._waited_for[self] = None
        self._left = self.untaken
        loop = asyncio.get_running_loop()
        self._look = loop.call_later(STALLED_SECONDS, self._look_again)
        self._make_room()

    def resume(self) -> None:
        self._waited_for.pop(self, None)
        if self._look is not None:
            self._look.cancel()
            self._look = None

    @classmethod
    def cut_off_all(cls) -> None:
        """For a server that stops: what is not taken by now is waited for no longer."""
        for reader in list(cls._waited_for):
            reader.cut_off()

    def _make_room(self) -> None:
        sizes = {it: it.untaken for it in self._waited_for}
        excess = sum(sizes.values()) - MOST_UNTAKEN
        for reader, size in sizes.items():
            if excess <= 0 or reader is self:
                return
            reader.cut_off()
            excess -= size

    def _look_again(self) -> None:
        if self.untaken >= self._left:
            self.cut_off()
        else:
            self.pause()

    def cut_off(self) -> None:
        self.resume()
        self._transport.abort()


def _without_upgrade(data: bytes) -> bytes:
    """Java's HTTP client offers to speak HTTP/2 with its first request, and may be ignored; the
    parser would take the body, and what follows, for another protocol."""
    head, end, rest = data.partition(b"\r\n\r\n")
    return _OTHER_UPGRADE.sub(b"\r\nx-upgrade:", head + end) + rest


def _refusal(status: int, code: int, message: str) -> bytes:
    body = error_body(code, message, None)
    retry = b"retry-after: 5\r\n" if status == 503 else b""  # noqa: PLR2004  as its name says
    head = (
        b"content-type: application/json\r\nconnection: close\r\n"
        b"content-length: " + str(len(body)).encode() + b"\r\n" + retry + b"\r\n"
    )
    return STATUS_LINE[status] + head + body
