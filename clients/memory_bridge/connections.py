"""HTTP connections that are kept alive, each read and write of them under a deadline."""

import contextlib
import io
import selectors
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTP_PORT, HTTPS_PORT, HTTPConnection, HTTPResponse, HTTPSConnection
from typing import TYPE_CHECKING, cast
from urllib.parse import SplitResult, quote, urlsplit

from memory_bridge.deadline import Deadline
from memory_bridge.errors import ConnectionLost, Unreachable

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_ALLOWED = "/%:@!$&'()*+,;=~?[]"


class Origin:
    """Where a URL points. Raises ValueError, with a sentence, for what is not an HTTP URL."""

    def __init__(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            self.port = parts.port
            self.target = _target(parts)
            _check_host(parts.hostname or "")
        except ValueError as error:
            raise ValueError(f"{url!r} is not a URL: {error}.") from error
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not a URL that starts with http:// or https://.")
        self.secure = parts.scheme == "https"
        self.host = parts.hostname
        self.name = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"

    @property
    def address(self) -> tuple[str, int]:
        """The host and the port, the usual one if the URL names none."""
        return self.host, self.port or (HTTPS_PORT if self.secure else HTTP_PORT)

    def connect(self, deadline: Deadline) -> HTTPConnection:
        kind = HTTPSConnection if self.secure else HTTPConnection
        http = kind(self.host, self.port, timeout=deadline.remaining())
        http.connect()
        return http


def _target(parts: SplitResult) -> str:
    """Spells what a URL may not hold, such as a letter beyond ASCII or a space, in escapes."""
    path, query = (quote(part, safe=_ALLOWED) for part in (parts.path or "/", parts.query))
    return f"{path}?{query}" if query else path


def _check_host(host: str) -> None:
    """Raises ValueError for a name that no resolver takes: an empty or too long label, a space."""
    if any(character.isspace() or not character.isprintable() for character in host):
        raise ValueError("its host holds a space or what cannot be seen")
    try:
        host.encode("idna")
    except UnicodeError:
        raise ValueError("a part of its host is empty, too long or no name") from None


@dataclass(frozen=True)
class Outgoing:
    """A request as it goes out."""

    method: str
    target: str
    body: bytes
    headers: Mapping[str, str]


class Connection:
    """One connection. `http.client` reads and writes through a socket that minds the deadline."""

    def __init__(self, origin: Origin, deadline: Deadline) -> None:
        self._http = origin.connect(deadline)
        self._socket: socket.socket = self._http.sock
        self._wire = _Wire(self._socket, deadline)
        self._http.sock = cast("socket.socket", self._wire)
        self._http.auto_open = 0
        self._response: HTTPResponse | None = None

    def send(self, outgoing: Outgoing, deadline: Deadline) -> None:
        self._wire.deadline = deadline
        self._response = None
        self._http.request(outgoing.method, outgoing.target, outgoing.body, outgoing.headers)

    def response(self) -> HTTPResponse:
        self._response = self._http.getresponse()
        return self._response

    def allow(self, deadline: Deadline) -> None:
        """Puts what is still to be read under another deadline."""
        self._wire.deadline = deadline

    @property
    def reusable(self) -> bool:
        """The answer was read to its end, and neither side wants to hang up."""
        read = self._response is not None and self._response.isclosed()
        return read and self._http.sock is not None  # pyright: ignore[reportUnnecessaryComparison]  # None once closed

    @property
    def stale(self) -> bool:
        """An idle connection has nothing to read, unless the server has hung up."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            return bool(selector.select(0))

    def hang_up(self) -> None:
        """Wakes the thread that reads, whose part it is then to close."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.hang_up()
        self._http.close()
        if self._response is not None:
            self._response.close()


class ConnectionPool:
    """As many connections as requests are in flight; the idle ones wait to be used again."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._busy: set[Connection] = set()
        self._closed = False

    def take_idle(self) -> Connection | None:
        """Returns a connection that is still good, or None if there is none."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection = self._idle.pop()
                self._busy.add(connection)
            if not connection.stale:
                return connection
            self.discard(connection)

    def connect(self, deadline: Deadline) -> Connection:
        try:
            connection = Connection(self._origin, deadline)
        except TimeoutError as error:
            raise Unreachable(f"{self._origin.name} cannot be reached in time.") from error
        except OSError as error:
            raise Unreachable(f"{self._origin.name} cannot be reached: {error}.") from error
        with self._lock:
            self._busy.add(connection)
        if self._closed:
            self.discard(connection)
            raise ConnectionLost("The connection is closed.")
        return connection

    def give_back(self, connection: Connection) -> None:
        if self._closed or not connection.reusable:
            self.discard(connection)
            return
        with self._lock:
            self._busy.discard(connection)
            self._idle.append(connection)

    def discard(self, connection: Connection) -> None:
        with self._lock:
            self._busy.discard(connection)
        connection.close()

    def close_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            busy = list(self._busy)
        self.close_idle()
        for connection in busy:
            connection.hang_up()


class _Wire:
    """The part of a socket that `http.client` uses."""

    def __init__(self, raw: socket.socket, deadline: Deadline) -> None:
        self.deadline = deadline
        self._raw = raw

    def sendall(self, data: bytes) -> None:
        self._raw.settimeout(self.deadline.remaining())
        self._raw.sendall(data)

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_TimedReader(self, self._raw))

    def close(self) -> None:
        self._raw.close()


class _TimedReader(io.RawIOBase):
    """Sets the time that is left before every read, so that a trickle cannot outlast it."""

    def __init__(self, wire: _Wire, raw: socket.socket) -> None:
        self._wire = wire
        self._socket = raw
        # This file keeps the socket open after `http.client` closed it, as a socket's own does.
        self._file = raw.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer", /) -> int | None:
        self._socket.settimeout(self._wire.deadline.remaining())
        return self._file.readinto(buffer)

    def close(self) -> None:
        self._file.close()
        super().close()
