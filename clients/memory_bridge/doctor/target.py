"""The server that is examined, and how it is asked."""

import contextlib
import ipaddress
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from http.client import HTTPException, HTTPMessage
from typing import Any

from memory_bridge import __version__, clock, responses
from memory_bridge.connections import Connection, Origin, Outgoing
from memory_bridge.deadline import Deadline
from memory_bridge.errors import ConnectionLost, Unreachable
from memory_bridge.http import authorization
from memory_bridge.messages import as_object
from memory_bridge.rest import base_of

_NAME = f"memory-bridge-doctor/{__version__}"
FUNNEL = ".ts.net"


@dataclass(frozen=True)
class Reply:
    status: int
    headers: HTTPMessage
    body: bytes

    @property
    def is_good(self) -> bool:
        return self.status == HTTPStatus.OK

    @property
    def told(self) -> dict[str, Any]:
        """The body as a JSON object, empty if it is none."""
        try:
            return as_object(json.loads(self.body)) or {}
        except (ValueError, RecursionError):
            return {}


@dataclass(frozen=True)
class Credentials:
    """`trouble` says why the token that was meant is not there."""

    token: str | None = None
    file: str | None = None
    trouble: str | None = None


class Target:
    """One server. `url` is its MCP endpoint; `now` tells the time of this machine."""

    def __init__(
        self,
        url: str,
        credentials: Credentials | None = None,
        *,
        timeout: float = 10.0,
        now: Callable[[], datetime] = clock.now,
    ) -> None:
        """Raises ValueError, with a sentence, for a bad URL."""
        self.url = url
        self.origin = Origin(base_of(url))
        self.credentials = credentials or Credentials()
        self.now = now
        self._timeout = timeout

    @property
    def is_local(self) -> bool:
        """Whether it is asked for on this machine itself."""
        host = self.origin.host
        with contextlib.suppress(ValueError):
            return ipaddress.ip_address(host).is_loopback
        return host == "localhost"

    @property
    def is_funnel(self) -> bool:
        return self.origin.host.endswith(FUNNEL)

    def deadline(self) -> Deadline:
        return Deadline(self._timeout)

    def ask(self, path: str, *, proved: bool = False) -> Reply:
        """Returns what GET answers, whatever its status; `proved` sends the token with it.

        Raises `Unreachable`, `ConnectionLost`, `TimedOut`, `ProtocolError`, and ValueError for
        what cannot be a token.
        """
        token = authorization(self.credentials.token) if proved else {}
        headers = {"Accept": "application/json, text/plain", "User-Agent": _NAME, **token}
        outgoing = Outgoing("GET", self.origin.target + path, b"", headers)
        deadline = self.deadline()
        try:
            with contextlib.closing(self._connected(deadline)) as connection:
                connection.send(outgoing, deadline)
                response = connection.response()
                return Reply(response.status, response.headers, responses.body(response))
        except TimeoutError as error:
            raise deadline.expired() from error
        except (OSError, HTTPException) as error:
            reason = str(error) or type(error).__name__
            raise ConnectionLost(f"The connection was lost: {reason}.") from error

    def _connected(self, deadline: Deadline) -> Connection:
        try:
            return Connection(self.origin, deadline)
        except TimeoutError:
            raise
        except OSError as error:
            raise Unreachable(f"{self.origin.name} cannot be reached: {error}.") from error
