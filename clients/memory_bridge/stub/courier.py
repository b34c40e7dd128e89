"""Delivers calls: as often as it takes where that is safe, else once."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from memory_bridge import exits, messages
from memory_bridge.deadline import Deadline
from memory_bridge.errors import ClientError, HTTPFailure, MCPError, TimedOut, Unreachable
from memory_bridge.messages import Message, as_object
from memory_bridge.pauses import pauses
from memory_bridge.stub.calls import Call
from memory_bridge.stub.refusals import may_have_arrived, refusal, undelivered
from memory_bridge.stub.tools import Signature, Toolbox, Traits

_INVALID_REQUEST = -32600
_FAREWELL_SECONDS = 1.0
_LONGEST_ASKED_PAUSE_SECONDS = 30.0
# A connection may be dead without a word: what may be asked again has time for another one.
_ATTEMPTS_IN_TIME = 3


class Way(Protocol):
    """What leads to the server. Raises what a transport raises."""

    def request(self, message: Message, deadline: Deadline) -> Message: ...

    def send(self, message: Message, deadline: Deadline) -> None: ...


@dataclass(frozen=True)
class _Outcome:
    """What an attempt came to. One that is not final is worth another, after `pause` seconds."""

    answer: Message
    is_final: bool = True
    pause: float = 0.0


class Courier:
    """`on_unreachable` is called whenever no connection came about; it may start the server."""

    def __init__(
        self,
        way: Way,
        toolbox: Toolbox,
        signature: Signature,
        on_unreachable: Callable[[], None],
    ) -> None:
        self._way = way
        self._toolbox = toolbox
        self._signature = signature
        self._on_unreachable = on_unreachable

    def deliver(self, call: Call) -> Message | None:
        """Returns what the host is to be told, None when it does not want to hear it any more."""
        for seconds in pauses():
            outcome = self._outcome(call)
            if call.is_unwanted:
                break
            if not outcome.is_final:
                call.pause(max(seconds, outcome.pause))
            if outcome.is_final or call.deadline.is_over:
                self._abandon(call)
                return outcome.answer
        return None

    def _outcome(self, call: Call) -> _Outcome:
        try:
            answer = {**self._attempt(call), "id": call.id}
        except ValueError as error:
            told = f"The request cannot be sent: {error}."
            return _Outcome(refusal(call.id, _INVALID_REQUEST, told))
        except ClientError as error:
            return self._failure(call, error)
        call.may_have_arrived = False
        return _Outcome(answer, is_final=not _is_to_be_repeated(call, answer))

    def _failure(self, call: Call, error: ClientError) -> _Outcome:
        if isinstance(error, Unreachable):
            self._on_unreachable()
        lost = call.was_sent and may_have_arrived(error)  # or else the tools were not learned
        call.may_have_arrived = call.may_have_arrived or lost
        asked = error.retry_after if isinstance(error, HTTPFailure) else None
        return _Outcome(
            undelivered(call, call.deadline.expired() if isinstance(error, TimedOut) else error),
            is_final=not exits.passes(error) or (lost and not call.repeatable),
            pause=min(asked or 0.0, _LONGEST_ASKED_PAUSE_SECONDS),
        )

    def _attempt(self, call: Call) -> Message:
        if call.tool is not None and not call.is_prepared:
            self._prepare(call, call.tool)
        left = call.deadline.remaining()
        share = call.deadline.seconds / _ATTEMPTS_IN_TIME if call.repeatable else left
        return self._way.request(call.attempt(), Deadline(min(left, share)))

    def _prepare(self, call: Call, tool: str) -> None:
        if not self._toolbox.is_known:
            with contextlib.suppress(MCPError):
                self._learn(call)
        traits = self._toolbox.of(tool) or Traits()
        arguments = as_object(call.params.get("arguments", {}))
        if arguments is not None:
            signed, keyed = self._signature.sign(arguments, traits)
            call.adopt(signed, repeatable=traits.read_only or keyed, writes=not traits.read_only)

    def _learn(self, call: Call) -> None:
        envelope = messages.envelope_of(call.message)
        params: Message = {"_meta": envelope} if envelope else {}
        while True:
            asked = messages.request(f"{call.id}~tools", "tools/list", params)
            answer = self._way.request(asked, Deadline(call.deadline.remaining()))
            page = messages.result_of(answer)
            self._toolbox.learn(page)
            if page.get("nextCursor") is None:
                return
            params = {**params, "cursor": page["nextCursor"]}

    def _abandon(self, call: Call) -> None:
        """Tells the server, if its answer is not there in time, that nobody waits for it."""
        if call.may_have_arrived and not call.is_modern:
            params = {"requestId": call.attempt_id, "reason": "There was no answer in time."}
            cancelled = messages.notification("notifications/cancelled", params)
            with contextlib.suppress(ClientError):
                self._way.send(cancelled, Deadline(_FAREWELL_SECONDS))


def _is_to_be_repeated(call: Call, answer: Message) -> bool:
    """A server that stops answers so, and one whose memory somebody else holds: `busy` if nothing
    was done, `unavailable` if what it was asked for may be done or not."""
    code = _problem_of(answer).get("code")
    return code == "busy" or (code == "unavailable" and call.repeatable)


def _problem_of(answer: Message) -> Message:
    result = as_object(answer.get("result")) or {}
    structured = as_object(result.get("structuredContent")) or {}
    return (as_object(structured.get("problem")) or {}) if result.get("isError") is True else {}
