"""What the host is told when a call cannot be delivered: a JSON-RPC error, honest about it."""

from typing import Any

from memory_bridge import exits
from memory_bridge.errors import (
    ClientError,
    ConnectionLost,
    HTTPFailure,
    MCPError,
    SessionLost,
    TimedOut,
    Unauthorized,
    Unreachable,
)
from memory_bridge.messages import Message
from memory_bridge.stub.calls import Call

SERVER_ERROR = -32000
UNAUTHORIZED = -32001

_UNKNOWN = "Whether it was carried out is unknown: look before you repeat it."
_NOTHING_DONE = "Nothing was carried out."


def refusal(request_id: Any, code: int, message: str, data: Message | None = None) -> Message:
    error = {"code": code, "message": message} | ({} if data is None else {"data": data})
    return {"jsonrpc": "2.0", "id": request_id, "error": error}


def overflow(call: Call) -> Message:
    told = f"As many calls wait for the server as may. {_NOTHING_DONE} Try again in a moment."
    return refusal(call.id, SERVER_ERROR, told, _data("busy", retryable=True))


def undelivered(call: Call, error: ClientError) -> Message:
    """Says why there is no answer, and whether the call may have been carried out all the same."""
    if isinstance(error, MCPError):
        return refusal(call.id, error.code, error.message, error.data)
    code = UNAUTHORIZED if isinstance(error, Unauthorized) else SERVER_ERROR
    told = f"{error} {_fate(call, error)}".rstrip()
    return refusal(call.id, code, told, _data(exits.name_of(error), retryable=exits.passes(error)))


def may_have_arrived(error: ClientError) -> bool:
    """Whether the server may be at work on what failed like this."""
    match error:
        case Unreachable() | SessionLost():
            return False
        case HTTPFailure():
            return error.retry_after is None and exits.passes(error)
        case _:
            return isinstance(error, ConnectionLost | TimedOut)


def _fate(call: Call, error: ClientError) -> str:
    if not call.writes:
        return ""
    if call.may_have_arrived:
        return _UNKNOWN
    return _NOTHING_DONE if isinstance(error, ConnectionLost) else ""


def _data(code: str, *, retryable: bool) -> Message:
    return {"code": code, "retryable": retryable}
