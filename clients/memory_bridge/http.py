"""MCP over streamable HTTP: a POST for each message, answered by JSON or by an event stream."""

import contextlib
import threading
from collections.abc import Generator, Mapping
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from typing import Any

from memory_bridge import messages, responses
from memory_bridge.connections import Connection, ConnectionPool, Origin, Outgoing
from memory_bridge.deadline import Deadline
from memory_bridge.errors import ClientError, ConnectionLost, ProtocolError
from memory_bridge.messages import Message
from memory_bridge.sse import message_data
from memory_bridge.transport import Receiver

_FAREWELL_SECONDS = 1.0
# An event stream ends right after its answer; waiting longer is not worth a connection.
_STREAM_END_SECONDS = 0.05
_NO_HEADERS: Mapping[str, str] = {}
_SESSION = "Mcp-Session-Id"
_EVENT_STREAM = "text/event-stream"


class HttpTransport:
    """One endpoint, its bearer token, and in the handshake era the session it gave us."""

    def __init__(self, url: str, *, token: str | None = None) -> None:
        """Raises ValueError, with a sentence, for a bad URL or token."""
        self._origin = Origin(url)
        self._pool = ConnectionPool(self._origin)
        self._headers: Mapping[str, str] = {
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            **authorization(token),
        }
        self._session = _NO_HEADERS
        self._receive: Receiver = lambda _message: None
        self._tracking = threading.Lock()
        self._in_flight: dict[object, Connection] = {}

    @property
    def has_session(self) -> bool:
        return _SESSION in self._session

    def use_token(self, token: str) -> None:
        """Sends another token from now on. Raises ValueError for a bad one."""
        self._headers = {**self._headers, **authorization(token)}

    def open(self, receive: Receiver) -> None:
        self._receive = receive

    def request(self, message: Message, deadline: Deadline) -> Message:
        greeting = message["method"] == "initialize"
        headers = _NO_HEADERS if greeting else self._headers_of(message)
        post = self._post(message, headers)
        with self._exchange(post, deadline, message["id"]) as response:
            answer = self._answer(message["id"], response)
        if greeting and "result" in answer:
            self._session = _session_headers(response, answer["result"])
        return answer

    def send(self, message: Message, deadline: Deadline) -> None:
        with self._exchange(self._post(message, self._headers_of(message)), deadline):
            pass

    def listen(self, deadline: Deadline) -> None:
        """Receives what the server says by itself in this session, until it ends the stream.

        Raises what `request` raises.
        """
        with self._exchange(self._outgoing("GET", b"", self._session), deadline) as response:
            if responses.content_type(response) != _EVENT_STREAM:
                raise ProtocolError(f"{self._origin.name} does not answer GET with a stream.")
            for data in message_data(responses.chunks(response)):
                self._receive(messages.parse(data))

    def interrupt(self, request_id: object) -> None:
        """Hangs up on a request that another thread waits for; there it raises."""
        with self._tracking:
            if (connection := self._in_flight.get(request_id)) is not None:
                connection.hang_up()

    def abandon(self, request: Message, reason: str) -> None:
        # In the modern era the connection that was closed has said it already.
        if messages.envelope_version(request) is None:
            params = {"requestId": request["id"], "reason": reason}
            cancelled = messages.notification("notifications/cancelled", params)
            with contextlib.suppress(ClientError):
                self.send(cancelled, Deadline(_FAREWELL_SECONDS))

    def close(self) -> None:
        if _SESSION in self._session:
            farewell = self._outgoing("DELETE", b"", self._session)
            with (
                contextlib.suppress(ClientError),
                self._exchange(farewell, Deadline(_FAREWELL_SECONDS)),
            ):
                pass
        self._pool.close()

    def _headers_of(self, message: Message) -> Mapping[str, str]:
        return messages.routing_headers(message) or self._session

    def _post(self, message: Message, headers: Mapping[str, str]) -> Outgoing:
        return self._outgoing("POST", messages.encode(message), headers)

    def _outgoing(self, method: str, body: bytes, headers: Mapping[str, str]) -> Outgoing:
        return Outgoing(method, self._origin.target, body, {**self._headers, **headers})

    @contextlib.contextmanager
    def _exchange(
        self, outgoing: Outgoing, deadline: Deadline, request_id: object = None
    ) -> Generator[HTTPResponse]:
        """Sends and yields the response, raising when it is a refusal; drains it afterwards."""
        with self._wire_errors(deadline):
            connection = self._sent(outgoing, deadline)
        with self._tracking:
            self._in_flight[request_id] = connection
        try:
            with self._wire_errors(deadline):
                response = connection.response()
                if response.status >= HTTPStatus.MULTIPLE_CHOICES:
                    raise responses.refusal(response, has_session=_SESSION in outgoing.headers)
                yield response
            connection.allow(Deadline(_STREAM_END_SECONDS))
            with contextlib.suppress(ClientError, OSError, HTTPException):
                responses.body(response)
        finally:
            with self._tracking:
                self._in_flight.pop(request_id, None)
            self._pool.give_back(connection)

    def _sent(self, outgoing: Outgoing, deadline: Deadline) -> Connection:
        idle = self._pool.take_idle()
        if idle is not None:
            # The server may hang up at this very moment. A request that could not be handed over
            # whole was not carried out, so it may be sent again; after that it may not.
            if self._handed_over(idle, outgoing, deadline):
                return idle
            self._pool.discard(idle)
        fresh = self._pool.connect(deadline)
        # Whole or not: who refuses a long body hangs up in the middle of it, and the refusal may
        # lie there to be read.
        self._handed_over(fresh, outgoing, deadline)
        return fresh

    def _handed_over(self, connection: Connection, outgoing: Outgoing, deadline: Deadline) -> bool:
        """Returns False when the server hung up before it had the whole request."""
        try:
            connection.send(outgoing, deadline)
        except ConnectionError:
            return False
        except BaseException:
            self._pool.discard(connection)
            raise
        return True

    def _answer(self, request_id: int, response: HTTPResponse) -> Message:
        kind = responses.content_type(response)
        if kind == _EVENT_STREAM:
            return self._streamed_answer(request_id, response)
        if kind != "application/json":
            raise ProtocolError(
                f"{self._origin.name} answered with {kind or 'nothing'} (status "
                f"{response.status}) instead of JSON: is this the address of an MCP server?"
            )
        return messages.parse(responses.body(response))

    def _streamed_answer(self, request_id: int, response: HTTPResponse) -> Message:
        for data in message_data(responses.chunks(response)):
            message = messages.parse(data)
            if not messages.is_answer(message):
                self._receive(message)
            elif message.get("id") in (request_id, None):
                return message
        raise ConnectionLost(f"{self._origin.name} ended the stream without an answer.")

    @contextlib.contextmanager
    def _wire_errors(self, deadline: Deadline) -> Generator[None]:
        try:
            yield
        except TimeoutError as error:
            # Where one connection is dead without a word the idle ones most likely are too.
            self._pool.close_idle()
            raise deadline.expired() from error
        except (OSError, HTTPException) as error:
            reason = str(error) or type(error).__name__
            lost = f"The connection to {self._origin.name} was lost: {reason}."
            raise ConnectionLost(lost) from error


def authorization(token: str | None) -> dict[str, str]:
    """Raises ValueError, with a sentence, for what cannot be a token."""
    if token is None:
        return {}
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError("The token is empty or holds characters that no token has.")
    return {"Authorization": f"Bearer {token}"}


def _session_headers(response: HTTPResponse, result: Any) -> dict[str, str]:
    """Returns nothing that no header can hold: whether the version is known is checked later."""
    version = (messages.as_object(result) or {}).get("protocolVersion")
    known = version in messages.HANDSHAKE_VERSIONS
    headers: dict[str, str] = {"MCP-Protocol-Version": version} if known else {}
    session = response.getheader(_SESSION)
    return {**headers, _SESSION: session} if session else headers
