"""The server's HTTP interface, for what no tool of MCP does."""

import contextlib
import json
from collections.abc import Generator, Iterator, Sequence
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from typing import Any
from urllib.parse import quote, urlencode

from memory_bridge import __version__, exits, responses
from memory_bridge.connections import Connection, Origin, Outgoing
from memory_bridge.deadline import Deadline, Silence
from memory_bridge.errors import (
    ClientError,
    ConnectionLost,
    HTTPFailure,
    ProtocolError,
    ToolFailed,
    Unauthorized,
    Unreachable,
)
from memory_bridge.http import authorization
from memory_bridge.messages import Message, as_object

_MCP = "mcp"
_API = "api/v1/"
_EVENT_STREAM = "text/event-stream"
# Three times as long as the server lets a stream be silent.
_LONGEST_SILENCE_SECONDS = 45.0

Query = Sequence[tuple[str, str | int]]


class RestClient:
    """Speaks to the server whose MCP endpoint is `url`; every call has its own connection."""

    def __init__(
        self, url: str, *, token: str | None, client_id: str | None, timeout: float
    ) -> None:
        """Raises ValueError, with a sentence, for a bad URL or token."""
        self._origin = Origin(base_of(url) + _API)
        self._timeout = timeout
        self._headers = {
            "Accept": "application/json",
            "User-Agent": f"memory-bridge/{__version__}",
            **authorization(token),
            **_introduction(client_id),
        }

    def call(
        self, method: str, *path: str, query: Query = (), body: Message | None = None
    ) -> Message:
        """Returns what is answered. Raises `ToolFailed` for a problem that the memory has,
        `Unauthorized`, `HTTPFailure`, `ProtocolError`, `ConnectionLost` and `TimedOut`."""
        target = self._target(path, query)
        outgoing = Outgoing(method, target, b"", self._headers)
        if body is not None:
            headers = {**self._headers, "Content-Type": "application/json"}
            outgoing = Outgoing(method, target, json.dumps(body).encode(), headers)
        with self._exchange(outgoing, Deadline(self._timeout)) as (_, response):
            return _read(response)

    @contextlib.contextmanager
    def stream(
        self, *path: str, query: Query = (), last_id: str | None = None
    ) -> Generator[Iterator[bytes]]:
        """Yields what is answered as it comes, for as long as the server says something.

        Raises, in the block too, what `call` raises.
        """
        resumed = {"Last-Event-ID": last_id} if last_id else {}
        headers = {**self._headers, "Accept": _EVENT_STREAM, **resumed}
        outgoing = Outgoing("GET", self._target(path, query), b"", headers)
        with self._exchange(outgoing, Deadline(self._timeout)) as (connection, response):
            if responses.content_type(response) != _EVENT_STREAM:
                _read(response)
                raise ProtocolError(f"{self._origin.name} does not answer with a stream.")
            connection.allow(Silence(_LONGEST_SILENCE_SECONDS))
            yield responses.chunks(response)

    @contextlib.contextmanager
    def _exchange(
        self, outgoing: Outgoing, deadline: Deadline
    ) -> Generator[tuple[Connection, HTTPResponse]]:
        try:
            with contextlib.closing(self._connect(deadline)) as connection:
                connection.send(outgoing, deadline)
                yield connection, connection.response()
        except TimeoutError as error:
            raise deadline.expired() from error
        except (OSError, HTTPException) as error:
            reason = str(error) or type(error).__name__
            lost = f"The connection to {self._origin.name} was lost: {reason}."
            raise ConnectionLost(lost) from error

    def _connect(self, deadline: Deadline) -> Connection:
        try:
            return Connection(self._origin, deadline)
        except TimeoutError:
            raise
        except OSError as error:
            raise Unreachable(f"{self._origin.name} cannot be reached: {error}.") from error

    def _target(self, path: tuple[str, ...], query: Query) -> str:
        target = self._origin.target + "/".join(quote(step, safe="") for step in path)
        return f"{target}?{urlencode(query)}" if query else target


def base_of(url: str) -> str:
    """Returns where the server's addresses begin, with a slash at the end."""
    base, _, _ = url.partition("?")
    return base.rstrip("/").removesuffix(_MCP).rstrip("/") + "/"


def _introduction(client_id: str | None) -> dict[str, str]:
    """A header is sent as Latin-1; what is beyond it goes as UTF-8."""
    return {"Memory-Client-Id": client_id.encode().decode("latin-1")} if client_id else {}


def _read(response: HTTPResponse) -> Message:
    if response.getheader("Location") and response.status >= HTTPStatus.MULTIPLE_CHOICES:
        raise ProtocolError(f"The server has moved: use {response.getheader('Location')}.")
    told = _as_object(responses.body(response))
    if response.status >= HTTPStatus.BAD_REQUEST:
        raise _refusal(response, told or {})
    if told is None:
        raise ProtocolError("The server answered with something else than JSON.")
    return told


def _as_object(text: bytes) -> Message | None:
    try:
        return as_object(json.loads(text))
    except (ValueError, RecursionError):
        return None


def _refusal(response: HTTPResponse, told: Message) -> ClientError:
    status = response.status
    problem: Any = told.get("detail") or (as_object(told.get("error")) or {}).get("message")
    reason = problem if isinstance(problem, str) else response.reason or "no reason given"
    if status == HTTPStatus.UNAUTHORIZED:
        return Unauthorized(f"The server wants a valid bearer token (401): {reason}")
    if exits.is_known(told.get("code")):
        return ToolFailed("the HTTP interface", _result({**told, "message": reason}))
    wait = response.getheader("Retry-After", "")
    seconds = float(wait) if wait.isdigit() else None
    return HTTPFailure(f"The server refused the request ({status}): {reason}", status, seconds)


def _result(problem: Message) -> Message:
    """The problem as a tool would tell it."""
    kept = {name: problem.get(name) for name in ("code", "message", "retryable", "argument")}
    text = {"type": "text", "text": problem["message"]}
    return {"content": [text], "structuredContent": {"problem": kept}}
