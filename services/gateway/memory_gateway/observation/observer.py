"""Tells of every call once: a line in the log, a count and, if asked for, the whole of it."""

import logging
from collections.abc import Mapping
from typing import Any, Protocol

from memory_gateway.observation.call import Call
from memory_gateway.observation.metrics import Metrics

logger = logging.getLogger("memory_gateway.calls")

QUIET = frozenset({"/healthz", "/readyz", "/metrics", "ping"})
"""Asked all the time by machines: told at the level debug."""
STANDING = frozenset({"subscriptions/listen", "GET /api/v1/events/stream"})


class Forensics(Protocol):
    """Keeps calls with their arguments and answers."""

    def keep(self, call: Call, arguments: Any, answer: Any) -> None: ...


class Observer:
    """Where calls end. Without `forensics` no argument or answer is kept anywhere."""

    def __init__(self, metrics: Metrics, forensics: Forensics | None = None) -> None:
        self.metrics = metrics
        self._forensics = forensics

    def finish(self, call: Call) -> None:
        call.told = True
        self.metrics.count(call, standing=call.name in STANDING)
        # A client that started the server on pipes may never read its standard error.
        quiet = call.via == "stdio" or call.name in QUIET
        _tell(logging.DEBUG if quiet else logging.INFO, call)

    def refuse(self, call: Call) -> None:
        """Ends a request that was turned away before it became a call."""
        call.told = True
        self.metrics.count_refusal(call.status or 0)
        _tell(logging.INFO, call)

    def keep(self, call: Call, arguments: Any, answer: Any) -> None:
        if self._forensics:
            self._forensics.keep(call, arguments, answer)


def _tell(level: int, call: Call) -> None:
    if not logger.isEnabledFor(level):
        return
    milliseconds = round(call.seconds * 1000, 2)
    who = call.caller.source_client if call.caller else call.client
    outcome = call.outcome if call.status in (None, 200) else f"{call.outcome} {call.status}"
    fields = _fields(call, milliseconds)
    logger.log(
        level, "%s %s %s ms [%s %s]", call.name, outcome, milliseconds, who, call.id, extra=fields
    )


def _fields(call: Call, milliseconds: float) -> Mapping[str, Any]:
    fields = {
        "request_id": call.id,
        "call": call.name,
        "via": call.via,
        "outcome": call.outcome,
        "ms": milliseconds,
        "status": call.status,
        "address": call.client,
    }
    if call.caller:
        fields |= {"principal": call.caller.principal, "client": call.caller.source_client}
    return {name: value for name, value in fields.items() if value is not None}
