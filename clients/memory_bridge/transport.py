"""What carries messages between the client and a server."""

from collections.abc import Callable
from typing import Protocol

from memory_bridge.deadline import Deadline
from memory_bridge.messages import Message

Receiver = Callable[[Message], None]


class Transport(Protocol):
    """A way to one server. Every method but `open` may be called from any thread.

    Beside what is listed, every method may raise `Unreachable` and `ConnectionLost`.
    """

    def open(self, receive: Receiver) -> None:
        """Makes ready. `receive` gets what the server sends unasked: notifications and requests.

        It is called on the thread that reads, so it must not wait for an answer.
        """
        ...

    def request(self, message: Message, deadline: Deadline) -> Message:
        """Sends a request and returns its answer, which may be a JSON-RPC error.

        Raises `TimedOut`, `Unauthorized`, `Forbidden`, `HTTPFailure`, `ProtocolError`, and
        `SessionLost` when the request was refused for want of a session.
        """
        ...

    def send(self, message: Message, deadline: Deadline) -> None:
        """Sends a notification or an answer. Raises what `request` raises."""
        ...

    def abandon(self, request: Message, reason: str) -> None:
        """Tells the server, if it can, that nobody waits for the answer any more. Never raises."""
        ...

    def close(self) -> None:
        """Ends the connection; requests in flight raise `ConnectionLost`. Never raises."""
        ...
