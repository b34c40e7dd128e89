"""Connections to one HTTP server, kept for the next request.

An HTTP client for every purpose took a quarter of the gateway's work for a write to hand it on.
"""

import select
import socket
import ssl
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from httptools import HttpParserError, HttpResponseParser

CONNECT_SECONDS = 2.0
UNHEARD_SECONDS = 6
"""After which a server whose machine says nothing at all, not even that it received, is gone."""
PROBES = 3
RECEIVED_AT_ONCE = 65_536


class CannotConnect(Exception):
    """Nobody answers at the address; nothing was sent."""


class BrokenOff(Exception):
    """The connection broke before the answer was there. The server may have done what was asked."""


@dataclass(frozen=True)
class Response:
    status: int
    body: bytes


class Connections:
    """Posts JSON to the server at `url`, on up to `most_kept` connections that wait for requests,
    each for up to `idle_seconds`. There are as many more as threads post at once.

    Raises `ValueError` if the address is none.
    """

    def __init__(
        self, url: str, authorization: bytes, *, most_kept: int, idle_seconds: float
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url} is not a server's address; it looks like http://host:8100")
        encrypted = parts.scheme == "https"
        self.url = url
        self._host = parts.hostname
        self._port = parts.port or (443 if encrypted else 80)
        self._encryption = ssl.create_default_context() if encrypted else None
        self._path = parts.path.rstrip("/").encode()
        self._fields = (
            b" HTTP/1.1\r\nHost: %s\r\nAuthorization: %s\r\nContent-Type: application/json\r\n"
            b"Content-Length: "
        ) % (parts.netloc.encode("idna"), authorization)
        self._most_kept = most_kept
        self._idle_seconds = idle_seconds
        self._idle: deque[_Connection] = deque()  # that which was used last is at the right
        self.closed = False

    def close(self) -> None:
        self.closed = True
        with suppress(IndexError):
            while True:
                self._idle.pop().close()

    def post(self, path: str, body: bytes, seconds: float) -> Response:
        """Returns the answer, which may take so long between any two of its pieces.

        Raises `CannotConnect`, `TimeoutError`, `BrokenOff`.
        """
        head = b"POST %s%s%s%d\r\n\r\n" % (self._path, path.encode(), self._fields, len(body))
        connection = self._take()
        try:
            return connection.ask(head + body, seconds)
        finally:
            self._put_back(connection)

    def _take(self) -> "_Connection":
        with suppress(IndexError):
            while True:
                connection = self._idle.pop()
                if not (self._is_old(connection) or connection.is_over):
                    return connection
                connection.close()
        return self._connect()

    def _connect(self) -> "_Connection":
        try:
            opened = socket.create_connection((self._host, self._port), CONNECT_SECONDS)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _end_if_unheard(opened)
            if self._encryption:
                opened = self._encryption.wrap_socket(opened, server_hostname=self._host)
        except OSError as error:
            raise CannotConnect(str(error)) from error
        return _Connection(opened)

    def _put_back(self, connection: "_Connection") -> None:
        if self.closed or not connection.is_reusable:
            connection.close()
            return
        connection.idle_since = time.monotonic()
        self._idle.append(connection)
        self._forget_oldest()

    def _forget_oldest(self) -> None:
        with suppress(IndexError):
            while len(self._idle) > self._most_kept or self._is_old(self._idle[0]):
                self._idle.popleft().close()

    def _is_old(self, connection: "_Connection") -> bool:
        return time.monotonic() - connection.idle_since > self._idle_seconds


def _end_if_unheard(opened: socket.socket) -> None:
    """A network that was cut tells nobody; without this an answer would be waited for in vain."""
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    seconds = UNHEARD_SECONDS // PROBES
    options = {
        "TCP_KEEPIDLE": seconds,
        "TCP_KEEPINTVL": seconds,
        "TCP_KEEPCNT": PROBES - 1,
        "TCP_USER_TIMEOUT": UNHEARD_SECONDS * 1000,
    }
    for name, value in options.items():
        if hasattr(socket, name):  # not every system has each
            opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class _Connection:
    """One connection, used by one thread at a time."""

    def __init__(self, opened: socket.socket) -> None:
        self._socket = opened
        self._readable = select.poll()
        self._readable.register(opened, select.POLLIN)
        self._parser = HttpResponseParser(self)
        self._body = bytearray()
        self._is_complete = False
        self.is_reusable = False
        self.idle_since = 0.0

    @property
    def is_over(self) -> bool:
        """Between two answers there is nothing to read but the end."""
        return bool(self._readable.poll(0))

    def close(self) -> None:
        self._socket.close()

    def ask(self, request: bytes, seconds: float) -> Response:
        self._is_complete = self.is_reusable = False
        self._body.clear()
        if self._socket.gettimeout() != seconds:  # to set it is a call of the system
            self._socket.settimeout(seconds)
        try:
            # Who refuses a request may not have read it to its end, and its answer counts.
            with suppress(BrokenPipeError, ConnectionResetError):
                self._socket.sendall(request)
            self._receive()
        except (OSError, HttpParserError) as error:
            # Without a number it is the patience of the caller that has ended.
            if isinstance(error, TimeoutError) and error.errno is None:
                raise
            raise BrokenOff(repr(error)) from error
        return Response(self._parser.get_status_code(), bytes(self._body))

    def _receive(self) -> None:
        while not self._is_complete:
            received = self._socket.recv(RECEIVED_AT_ONCE)
            if not received:
                raise BrokenOff("the connection was closed")
            self._parser.feed_data(received)

    def on_body(self, body: bytes) -> None:
        """The parser calls this, and what follows, by these names."""
        self._body += body

    def on_message_complete(self) -> None:
        self._is_complete = True
        self.is_reusable = self._parser.should_keep_alive()
