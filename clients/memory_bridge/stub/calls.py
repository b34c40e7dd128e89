"""The requests of the host that are under way."""

import threading
from collections.abc import Callable
from typing import Any

from memory_bridge.deadline import Deadline
from memory_bridge.messages import Message, envelope_version, params_of

RequestId = str | int

# None of these changes anything that asking twice would change once more.
_REPEATABLE = frozenset(
    {
        "completion/complete",
        "initialize",
        "logging/setLevel",
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/subscribe",
        "resources/templates/list",
        "resources/unsubscribe",
        "server/discover",
        "subscriptions/listen",
        "tools/list",
    }
)


class Call:
    """One request.

    `repeatable` says whether it may be asked again when its fate is unknown, `writes` whether
    that fate matters, and `may_have_arrived` whether an attempt of it broke off.
    """

    def __init__(self, message: Message, seconds: float) -> None:
        self.id: RequestId = message["id"]
        self.method: str = message["method"]
        self.message = message
        self.deadline = Deadline(seconds)
        self.repeatable = self.method in _REPEATABLE
        self.writes = not self.repeatable
        self.may_have_arrived = False
        self.is_prepared = False
        self.attempt_id: RequestId = self.id
        self._attempts = 0
        self._unwanted = threading.Event()

    @property
    def params(self) -> Message:
        return params_of(self.message)

    @property
    def tool(self) -> str | None:
        """The tool that is called, if it is a call of one."""
        name: Any = self.params.get("name") if self.method == "tools/call" else None
        return name if isinstance(name, str) else None

    @property
    def is_greeting(self) -> bool:
        """Whether a session begins with its answer."""
        return self.method == "initialize"

    @property
    def is_stream(self) -> bool:
        """Whether it goes on until the host or the server ends it."""
        return self.method == "subscriptions/listen"

    @property
    def is_modern(self) -> bool:
        return envelope_version(self.message) is not None

    @property
    def was_sent(self) -> bool:
        return self._attempts > 0

    @property
    def is_unwanted(self) -> bool:
        """Whether the host has cancelled it, or is gone."""
        return self._unwanted.is_set()

    def give_up(self) -> None:
        self._unwanted.set()

    def pause(self, seconds: float) -> None:
        """Waits, and no longer than the call is wanted."""
        self._unwanted.wait(seconds)

    def adopt(self, arguments: Message, *, repeatable: bool, writes: bool) -> None:
        """Takes other arguments, those that every attempt is made with."""
        self.message = {**self.message, "params": {**self.params, "arguments": arguments}}
        self.repeatable = repeatable
        self.writes = writes
        self.is_prepared = True

    def attempt(self) -> Message:
        """Returns the message under an id that no earlier attempt of it had."""
        if self._attempts:
            self.attempt_id = f"{self.id}~{self._attempts}"
        self._attempts += 1
        return {**self.message, "id": self.attempt_id}


class OpenCalls:
    """The calls that are not answered yet, by the ids that the host gave them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._calls: dict[RequestId, Call] = {}
        self._being_told = 0

    def add(self, call: Call) -> bool:
        """Returns False when another call has the same id."""
        with self._changed:
            return self._calls.setdefault(call.id, call) is call

    def get(self, request_id: object) -> Call | None:
        with self._changed:
            return self._calls.get(request_id) if isinstance(request_id, str | int) else None

    def settle(self, call: Call, tell: Callable[[], None]) -> None:
        """Frees the id, which the host may use again as soon as it is told the answer."""
        with self._changed:
            self._calls.pop(call.id, None)
            self._being_told += 1
        try:
            tell()
        finally:
            with self._changed:
                self._being_told -= 1
                self._changed.notify_all()

    def wait_for_answers(self, seconds: float) -> None:
        """Waits until none is left but streams, and no longer than `seconds`."""
        with self._changed:
            self._changed.wait_for(self._has_streams_only, seconds)

    def _has_streams_only(self) -> bool:
        waiting = (call for call in self._calls.values() if not call.is_stream)
        return not self._being_told and not any(waiting)

    def give_up(self) -> None:
        with self._changed:
            for call in self._calls.values():
                call.give_up()
