"""MCP over the standard input and output of a child process."""

import threading
from collections.abc import Callable, Mapping, Sequence
from queue import Empty, SimpleQueue

from memory_bridge.child import Child
from memory_bridge.deadline import Deadline
from memory_bridge.errors import ClientError, ConnectionLost, ProtocolError
from memory_bridge.messages import Message, encode, is_answer, notification, parse
from memory_bridge.transport import Receiver

_Waiter = SimpleQueue[Message | ClientError]


class StdioTransport:
    """Newline-delimited JSON-RPC; answers find their request by its id, in any order."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        grace_seconds: float = 3.0,
    ) -> None:
        self._command = command
        self._environment = environment
        self._grace = grace_seconds
        self._waiting = _Waiting()
        self._child: Child | None = None

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child else None

    def open(self, receive: Receiver) -> None:
        child = Child(self._command, environment=self._environment, grace_seconds=self._grace)
        self._child = child
        child.start(
            on_line=lambda line: self._take(line, receive, child),
            on_end=lambda: self._waiting.fail(child.death),
        )

    def request(self, message: Message, deadline: Deadline) -> Message:
        line = encode(message)
        waiter = self._waiting.add(message["id"])
        try:
            self._running().write(line)
            answer = waiter.get(timeout=deadline.remaining())
        except Empty:
            raise deadline.expired() from None
        finally:
            self._waiting.remove(message["id"])
        if isinstance(answer, ClientError):
            raise answer
        return answer

    def send(self, message: Message, deadline: Deadline) -> None:
        deadline.remaining()
        self._running().write(encode(message))

    def abandon(self, request: Message, reason: str) -> None:
        if self._child is not None:
            params = {"requestId": request["id"], "reason": reason}
            self._child.write(encode(notification("notifications/cancelled", params)))

    def close(self) -> None:
        self._waiting.fail(lambda: ConnectionLost("The connection is closed."))
        if self._child is not None:
            self._child.close()

    def _running(self) -> Child:
        if self._child is None:
            raise ConnectionLost("The connection is not open.")
        return self._child

    def _take(self, line: bytes, receive: Receiver, child: Child) -> None:
        if not line.strip():
            return
        try:
            message = parse(line)
        except ProtocolError as error:
            # Not a reason to hang up: a stray print of the server's. It may explain what follows.
            child.note(str(error))
            return
        if is_answer(message):
            self._waiting.answer(message)
        else:
            receive(message)


class _Waiting:
    """The requests in flight. Once failed, for good, it fails every later one the same way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiters: dict[int, _Waiter] = {}
        self._failure: Callable[[], ClientError] | None = None

    def add(self, request_id: int) -> _Waiter:
        with self._lock:
            if self._failure is not None:
                raise self._failure()
            return self._waiters.setdefault(request_id, SimpleQueue())

    def remove(self, request_id: int) -> None:
        with self._lock:
            self._waiters.pop(request_id, None)

    def answer(self, message: Message) -> None:
        with self._lock:
            waiter = self._waiter_of(message.get("id"))
        if waiter is not None:
            waiter.put(message)

    def fail(self, failure: Callable[[], ClientError]) -> None:
        with self._lock:
            self._failure = self._failure or failure
            waiters = list(self._waiters.values())
        for waiter in waiters:
            waiter.put(self._failure())

    def _waiter_of(self, request_id: object) -> _Waiter | None:
        # An error without an id answers a message that could not be read: the only one in flight.
        if request_id is None and len(self._waiters) == 1:
            return next(iter(self._waiters.values()))
        return self._waiters.get(request_id) if isinstance(request_id, int) else None
