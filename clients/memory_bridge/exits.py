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
UNWRITABLE = 74
INTERRUPTED = 130
BROKEN_PIPE = 141

EXPLAINED = """\
exit codes:
  0  done                      5  the token was refused or does not allow this
  1  not found, or nothing     6  the server is unreachable, too slow, or died
  2  wrong usage               7  busy: nothing was done, try again
  3  a condition did not hold  70 a fault inside, of the server's or our own
  4  refused: an argument      74 done, but the answer could not be written
"""

_CODES = {
    "wrong_usage": USAGE,
    "unwritable": UNWRITABLE,
    "internal": INTERNAL,
    "not_found": NOTHING,
    "conflict": CONFLICT,
    "idempotency_mismatch": CONFLICT,
    "invalid_argument": REFUSED,
    "unauthorized": UNAUTHORIZED,
    "forbidden": UNAUTHORIZED,
    "unavailable": UNREACHABLE,
    "busy": BUSY,
}
_STATUSES: dict[int, str] = {
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "invalid_argument",
    HTTPStatus.TOO_MANY_REQUESTS: "busy",
    HTTPStatus.SERVICE_UNAVAILABLE: "busy",
    HTTPStatus.BAD_GATEWAY: "unavailable",
    HTTPStatus.GATEWAY_TIMEOUT: "unavailable",
    HTTPStatus.NOT_FOUND: "unavailable",
}
_PARSE_ERROR = -32700
_INVALID_REQUEST = -32600
_INVALID_PARAMS = -32602
# The first two as well: what we send is well formed, so it is an argument that cannot be taken.
_REFUSALS = (_PARSE_ERROR, _INVALID_REQUEST, _INVALID_PARAMS)


class WrongUsageError(Exception):
    """What was typed cannot be meant; the text is a sentence."""


class OutputError(Exception):
    """The answer came and could not be written; the text is a sentence."""


_NAMES = (
    (WrongUsageError, "wrong_usage"),
    (OutputError, "unwritable"),
    (errors.Unauthorized, "unauthorized"),
    (errors.Forbidden, "forbidden"),
    ((errors.ConnectionLost, errors.TimedOut, errors.ProtocolError), "unavailable"),
)


def code_of(error: BaseException) -> int:
    return _CODES[name_of(error)]


def name_of(error: BaseException) -> str:
    """Returns the code of the error for programs, in the words of a memory's problems."""
    match error:
        case errors.ToolFailed():
            return _known(error.problem.get("code"))
        case errors.ServerDied() if error.exit_code == USAGE:  # our own refuses a setting so
            return "wrong_usage"
        case errors.HTTPFailure():
            return _STATUSES.get(error.status, "internal")
        case errors.MCPError(code=code) if code in _REFUSALS:
            return "invalid_argument"
        case _:
            return next((name for kind, name in _NAMES if isinstance(error, kind)), "internal")


def is_known(code: object) -> bool:
    """Returns whether the code of a problem is one that a memory has."""
    return isinstance(code, str) and code in _CODES


def passes(error: BaseException) -> bool:
    """Returns whether the same command may do better in a moment."""
    match error:
        case errors.ToolFailed():
            return error.problem.get("retryable") is True
        case errors.ServerDied():
            return False
        case errors.ConnectionLost() | errors.TimedOut():
            return True
        case errors.HTTPFailure(status=status):
            return status != HTTPStatus.NOT_FOUND and name_of(error) in ("busy", "unavailable")
        case _:
            return False


def _known(code: object) -> str:
    return str(code) if is_known(code) else "internal"
