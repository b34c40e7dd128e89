"""The exit codes of the command, and which error ends in which."""

from http import HTTPStatus

from memory_bridge import errors

OK = 0
NOTHING = 1
USAGE = 2
CONFLICT = 3
REFUSED = 4
UNAUTHORIZED = 5
UNREACHABLE = 6
BUSY = 7
INTERNAL = 70
INTERRUPTED = 130
BROKEN_PIPE = 141

EXPLAINED = """\
exit codes:
  0  done                      5  the token was refused or does not allow this
  1  not found, or nothing     6  the server is unreachable, too slow, or died
  2  wrong usage               7  busy: nothing was done, try again
  3  a condition did not hold  70 a fault inside the server
  4  the server refused an argument
"""

_PROBLEMS = {
    "not_found": NOTHING,
    "conflict": CONFLICT,
    "idempotency_mismatch": CONFLICT,
    "invalid_argument": REFUSED,
    "unauthorized": UNAUTHORIZED,
    "forbidden": UNAUTHORIZED,
    "unavailable": UNREACHABLE,
    "busy": BUSY,
}
_STATUSES: dict[int, int] = {
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: REFUSED,
    HTTPStatus.TOO_MANY_REQUESTS: BUSY,
    HTTPStatus.SERVICE_UNAVAILABLE: BUSY,
    HTTPStatus.BAD_GATEWAY: UNREACHABLE,
    HTTPStatus.GATEWAY_TIMEOUT: UNREACHABLE,
    HTTPStatus.NOT_FOUND: UNREACHABLE,
}
_INVALID_PARAMS = -32602


class WrongUsageError(Exception):
    """What was typed cannot be meant; the text is a sentence."""


def code_of(error: errors.ClientError) -> int:
    match error:
        case errors.ToolFailed():
            return _PROBLEMS.get(error.problem.get("code", ""), INTERNAL)
        case errors.Unauthorized() | errors.Forbidden():
            return UNAUTHORIZED
        case errors.ConnectionLost() | errors.TimedOut() | errors.ProtocolError():
            return UNREACHABLE
        case errors.HTTPFailure():
            return _STATUSES.get(error.status, INTERNAL)
        case errors.MCPError(code=code) if code == _INVALID_PARAMS:
            return REFUSED
        case _:
            return INTERNAL
