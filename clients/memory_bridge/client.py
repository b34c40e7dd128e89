"""The raw MCP client, written from the protocol: one `Client` over stdio or over HTTP."""

import itertools
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from memory_bridge import __version__, messages
from memory_bridge.deadline import Deadline
from memory_bridge.errors import (
    ClientError,
    ConnectionLost,
    Forbidden,
    HTTPFailure,
    MCPError,
    ProtocolError,
    ServerDied,
    SessionLost,
    TimedOut,
    ToolFailed,
    Unauthorized,
    Unreachable,
)
from memory_bridge.messages import Era, Message
from memory_bridge.transport import Transport

__all__ = [
    "Client",
    "ClientError",
    "ConnectionLost",
    "Forbidden",
    "HTTPFailure",
    "MCPError",
    "ProtocolError",
    "ServerDied",
    "SessionLost",
    "TimedOut",
    "ToolFailed",
    "Unauthorized",
    "Unreachable",
]

DEFAULT_TIMEOUT_SECONDS = 30.0
_REPLY_SECONDS = 5.0

OnNotification = Callable[[str, Message], None]


class Client:
    """A conversation with one server; `with` opens and closes it.

    Every method may be called from many threads at once, each waits only for its own answer and
    never longer than `timeout` seconds. All of them raise the classes of `errors`.

    `on_notification(method, params)` is called on the thread that reads: it must be quick, and a
    request made from it would wait for itself.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        era: Era = "handshake",
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
        on_notification: OnNotification = lambda _method, _params: None,
        name: str = "memory-bridge",
    ) -> None:
        self.server: Message = {}
        self._transport = transport
        self._era = era
        self._timeout = timeout
        self._on_notification = on_notification
        self._info = {"name": name, "version": __version__}
        self._ids = itertools.count(1)
        self._greeting = threading.Lock()
        self._sessions = 0

    @classmethod
    def stdio(
        cls, command: Sequence[str], *, environment: Mapping[str, str] | None = None, **options: Any
    ) -> Self:
        """Returns a client of a server that it starts; `options` are those of the class."""
        from memory_bridge.stdio import StdioTransport  # noqa: PLC0415  # starts in its own time

        return cls(StdioTransport(command, environment=environment), **options)

    @classmethod
    def http(cls, url: str, *, token: str | None = None, **options: Any) -> Self:
        """Returns a client of the server at `url`; `options` are those of the class."""
        from memory_bridge.http import HttpTransport  # noqa: PLC0415  # HTTP and TLS are slow to import

        return cls(HttpTransport(url, token=token), **options)

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def open(self) -> None:
        """Connects and greets the server; `server` then holds what it said of itself."""
        try:
            self._transport.open(self._take)
            self._greet(Deadline(self._timeout))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._transport.close()

    def request(
        self, method: str, params: Message | None = None, *, timeout: float | None = None
    ) -> Message:
        """Returns the result of any request; raises `MCPError` when the answer is an error."""
        deadline = Deadline(self._timeout if timeout is None else timeout)
        sessions = self._sessions
        try:
            return self._ask(method, params, deadline)
        except SessionLost:
            # The request was refused unread, so sending it once more cannot do it twice.
            self._renew(sessions, deadline)
            return self._ask(method, params, deadline)

    def notify(self, method: str, params: Message | None = None) -> None:
        message = messages.notification(method, params)
        self._transport.send(message, Deadline(self._timeout))

    def list_tools(self) -> list[Message]:
        return self.list_all("tools/list", "tools")

    def list_all(self, method: str, field: str) -> list[Message]:
        """Returns the items of every page of a list, following the cursors."""
        result = self.request(method, {})
        items: list[Message] = list(result[field])
        while cursor := result.get("nextCursor"):
            result = self.request(method, {"cursor": cursor})
            items.extend(result[field])
        return items

    def call_tool(
        self, name: str, arguments: Message | None = None, *, timeout: float | None = None
    ) -> Message:
        """Returns the tool's result; raises `ToolFailed`, which holds it, when it is an error."""
        params = {"name": name, "arguments": arguments or {}}
        result = self.request("tools/call", params, timeout=timeout)
        if result.get("isError"):
            raise ToolFailed(name, result)
        return result

    def _ask(self, method: str, params: Message | None, deadline: Deadline) -> Message:
        if self._era == "modern":
            params = messages.with_envelope(params, self._info)
        message = messages.request(next(self._ids), method, params)
        try:
            answer = self._transport.request(message, deadline)
        except (TimedOut, KeyboardInterrupt) as error:
            self._transport.abandon(message, str(error) or "interrupted")
            raise
        return messages.result_of(answer)

    def _greet(self, deadline: Deadline) -> None:
        if self._era == "modern":
            self.server = self._ask("server/discover", {}, deadline)
            return
        hello = {
            "protocolVersion": messages.HANDSHAKE_VERSION,
            "capabilities": {},
            "clientInfo": self._info,
        }
        self.server = self._ask("initialize", hello, deadline)
        version = self.server.get("protocolVersion")
        if version not in messages.HANDSHAKE_VERSIONS:
            raise ProtocolError(f"The server speaks version {version!r}, unknown to this client.")
        self._transport.send(messages.notification("notifications/initialized", None), deadline)

    def _renew(self, sessions: int, deadline: Deadline) -> None:
        """Greets again, unless another thread has done so since `sessions` was read."""
        with self._greeting:
            if self._sessions == sessions:
                self._greet(deadline)
                self._sessions += 1

    def _take(self, message: Message) -> None:
        if "id" in message:
            self._reply(message)
            return
        try:
            self._on_notification(str(message.get("method")), message.get("params") or {})
        except Exception:  # noqa: BLE001  # a callback's fault must not end the reading
            sys.excepthook(*sys.exc_info())  # pyright: ignore[reportArgumentType]  # there is one

    def _reply(self, message: Message) -> None:
        method = message.get("method")
        if method == "ping":
            answer = messages.reply(message["id"], {})
        else:
            reason = f"This client does not offer {method}."
            answer = messages.refusal(message["id"], messages.METHOD_NOT_FOUND, reason)
        try:
            self._transport.send(answer, Deadline(_REPLY_SECONDS))
        except (ClientError, ValueError):
            # The server goes without its answer, if only for an id that no JSON can hold; our own
            # request, which may still be answered, is not to fail for that.
            return
