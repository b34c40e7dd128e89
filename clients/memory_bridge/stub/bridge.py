"""Takes what the host says to the server, and what the server says to the host."""

import contextlib
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from memory_bridge import messages
from memory_bridge.deadline import Deadline
from memory_bridge.errors import ClientError
from memory_bridge.http import HttpTransport
from memory_bridge.messages import INTERNAL_ERROR, Message
from memory_bridge.stub.calls import Call, OpenCalls
from memory_bridge.stub.courier import Courier
from memory_bridge.stub.host import INVALID_REQUEST, Host, NotAMessageError, read_message
from memory_bridge.stub.lane import Lane
from memory_bridge.stub.link import Link
from memory_bridge.stub.listening import UPDATED, Subscriptions, follow_sessions
from memory_bridge.stub.refusals import overflow, refusal
from memory_bridge.stub.tools import Signature, Toolbox

_READERS = 8
_MOST_SUBSCRIPTIONS = 32
_ASIDE_SECONDS = 10.0


@dataclass(frozen=True)
class Terms:
    """How long a call may take in all, how many may wait, and who they are said to come from."""

    seconds: float
    room: int
    client_id: str | None = None


class Bridge:
    """Writes go one after the other, so that none overtakes another that is being tried again;
    reads go side by side and wait for no write. Both wait for a greeting that came before them,
    for until it is answered there is no session that they could be made in."""

    def __init__(
        self,
        host: Host,
        transport: HttpTransport,
        read_token: Callable[[], str | None],
        terms: Terms,
        on_unreachable: Callable[[], None],
    ) -> None:
        self._host = host
        self._transport = transport
        self._terms = terms
        self._link = Link(transport, read_token, self._on_renewed)
        self._toolbox = Toolbox()
        signature = Signature(terms.client_id)
        self._courier = Courier(self._link, self._toolbox, signature, on_unreachable)
        self._subscriptions = Subscriptions(self._link)
        self._open = OpenCalls()
        room = terms.room
        self._writes = Lane("writes", self._deliver, threads=1, room=room)
        self._reads = Lane("reads", self._deliver, threads=_READERS, room=room)
        self._streams = Lane(
            "streams", self._subscribe, threads=_MOST_SUBSCRIPTIONS, room=_MOST_SUBSCRIPTIONS
        )
        self._asides = Lane("asides", self._send, threads=1, room=room)
        self._greetings = Lane("greetings", self._deliver, threads=1, room=room)
        self._in_session = (self._writes, self._reads, self._asides)
        transport.open(self._hear)

    def serve(self) -> None:
        """Returns when the host has closed its end."""
        threading.Thread(target=follow_sessions, args=(self._link,), daemon=True).start()
        for line in self._host.lines():
            self._take(line)

    def wait_for_answers(self, seconds: float) -> None:
        """Waits until what the host asked for is answered, and no longer than `seconds`."""
        self._open.wait_for_answers(seconds)

    def close(self) -> None:
        self._open.give_up()
        self._transport.close()

    def _take(self, line: bytes) -> None:
        try:
            message = read_message(line)
        except NotAMessageError as error:
            self._host.say(refusal(error.request_id, error.code, str(error)))
            return
        match message:
            case {"method": "ping", "id": request_id}:
                self._host.say(messages.reply(request_id, {}))  # it is this process that is meant
            case {"method": "notifications/initialized"}:
                pass  # the link says it itself, before anything else in the session
            case {"method": "notifications/cancelled"}:
                self._cancel(message)
            case {"method": _, "id": _}:
                self._take_call(Call(message, self._terms.seconds))
            case _:
                self._asides.offer(message)

    def _take_call(self, call: Call) -> None:
        if not self._open.add(call):
            told = "A request with this id is under way."
            self._host.say(refusal(call.id, INVALID_REQUEST, told))
            return
        if call.is_greeting:
            for lane in self._in_session:
                lane.hold()
        if not self._lane_of(call).offer(call):
            self._settle(call, overflow(call))

    def _lane_of(self, call: Call) -> Lane[Call]:
        if call.is_greeting:
            return self._greetings
        if call.is_stream:
            return self._streams
        traits = self._toolbox.of(call.tool) if call.tool else None
        reads = not call.writes or (traits is not None and traits.read_only)
        return self._reads if reads else self._writes

    def _deliver(self, call: Call) -> None:
        try:
            answer = self._courier.deliver(call)
            if answer and call.method == "tools/list":
                self._toolbox.learn(answer.get("result") or {})
        except Exception:  # noqa: BLE001  # whatever it is, the host must not wait for ever
            sys.excepthook(*sys.exc_info())  # pyright: ignore[reportArgumentType]  # there is one
            told = "The stub failed; its stderr says why."
            answer = refusal(call.id, INTERNAL_ERROR, told)
        self._settle(call, answer)

    def _subscribe(self, call: Call) -> None:
        self._settle(call, self._subscriptions.follow(call))

    def _settle(self, call: Call, answer: Message | None) -> None:
        def tell() -> None:
            if answer is not None and not call.is_unwanted:
                self._host.say(answer)

        self._open.settle(call, tell)
        if call.is_greeting:
            for lane in self._in_session:
                lane.release()

    def _cancel(self, message: Message) -> None:
        params = messages.params_of(message)
        call = self._open.get(params.get("requestId"))
        if call is None:
            return
        call.give_up()
        if self._lane_of(call).withdraw(call):
            self._settle(call, None)
        elif call.is_modern:
            self._link.interrupt(call.attempt_id)  # there, hanging up is what cancels
        else:
            self._asides.offer({**message, "params": {**params, "requestId": call.attempt_id}})

    def _send(self, message: Message) -> None:
        # It can be neither answered nor repeated: in another session it would mean nothing.
        with contextlib.suppress(ClientError, ValueError):
            self._link.send(message, Deadline(_ASIDE_SECONDS))

    def _hear(self, message: Message) -> None:
        if message.get("method") == "notifications/tools/list_changed":
            self._toolbox.forget()
        for told in self._subscriptions.heard(message):
            self._host.say(told)

    def _on_renewed(self, subscribed: Sequence[str]) -> None:
        self._toolbox.forget()
        for uri in subscribed:
            self._host.say(messages.notification(UPDATED, {"uri": uri}))
