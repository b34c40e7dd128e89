"""The store at the other end of the wire, as one more holder of the contract."""

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any

from pydantic import ValidationError

from memory_store.connections import BrokenOff, CannotConnect, Connections, Response
from memory_store.contract import Internal, Problem, Store, Unavailable, Word, error_from
from memory_store.limits import MAX_HOLD_SECONDS, MAX_WAIT_SECONDS
from memory_store.wire import CLIENT_IDLE_SECONDS, OPERATIONS, Operation, authorization

KEPT_CONNECTIONS = 64
SUCCESS, FAULT = range(200, 300), range(500, 600)

log = logging.getLogger(__name__)


class HttpStore(Store):
    """The store that serves at `url`; its methods are drawn from the contract, below this class.

    `timeout` is how long an answer may take, in seconds. Nobody listening, a broken connection
    and a late answer raise `Unavailable`, a refused secret `Internal`.
    """

    def __init__(self, url: str, secret: str, *, timeout: float = 30.0) -> None:
        self._timeout = timeout
        self._connections = Connections(
            url,
            authorization(secret),
            most_kept=KEPT_CONNECTIONS,
            idle_seconds=CLIENT_IDLE_SECONDS,
        )

    def close(self) -> None:
        self._connections.close()

    def call(self, operation: Operation, arguments: Word) -> Any:
        body = operation.encode_arguments(arguments)
        if self._connections.closed:
            raise Unavailable("The connection to the store is closed.")
        seconds = self._timeout + _waiting(arguments)
        tries = 2 if _is_repeatable(operation, arguments) else 1
        return _read(operation, self._send(operation.path, body, seconds, tries))

    def _send(self, path: str, body: bytes, seconds: float, tries: int) -> Response:
        try:
            return self._connections.post(path, body, seconds)
        except (CannotConnect, TimeoutError, BrokenOff) as error:
            log.warning("%s%s: %r", self._connections.url, path, error)
            # Most often a connection that a restarted store no longer knows. Asking again at once
            # who is not there or late would meet the same, and only double the wait.
            if tries > 1 and isinstance(error, BrokenOff):
                return self._send(path, body, seconds, tries - 1)
            raise _unavailable(error) from error


def _draw(operation: Operation) -> Callable[..., Any]:
    @wraps(operation.method)
    def method(self: HttpStore, *args: Any, **kwargs: Any) -> Any:
        return self.call(operation, operation.bind(*args, **kwargs))

    return method


for _operation in OPERATIONS.values():
    setattr(HttpStore, _operation.name, _draw(_operation))


# Asking twice changes nothing: a read leaves one more read event, and it was read; `vector_put`,
# `model_use`, `change_release` and `token_revoke` find their work done. Left out are
# `change_take`, whose first lease would be lost until it runs out, `change_fail`, which would
# count one failure twice, `lock_hold`, and what makes a secret or expects what is there. What
# writes facts is repeated only under its idempotency key.
_REPEATABLE = frozenset(
    {
        "fact_get",
        "fact_get_many",
        "fact_list",
        "fact_search",
        "event_list",
        "event_follow",
        "namespace_list",
        "token_list",
        "token_verify",
        "token_revoke",
        "stats",
        "tag_list",
        "vector_put",
        "model_use",
        "change_release",
    }
)


def _is_repeatable(operation: Operation, arguments: Word) -> bool:
    if operation.name in _REPEATABLE:
        return True
    writes = getattr(arguments, "writes", None) or [getattr(arguments, "write", arguments)]
    return all(getattr(write, "idempotency_key", None) for write in writes)


def _waiting(arguments: Word) -> float:
    """`lock_hold` and `event_follow` answer only after their seconds have passed."""
    asked = {"seconds": MAX_HOLD_SECONDS, "wait_seconds": MAX_WAIT_SECONDS}
    return sum(min(max(0.0, getattr(arguments, of, 0.0)), most) for of, most in asked.items())


def _unavailable(error: Exception) -> Unavailable:
    match error:
        case CannotConnect():
            return Unavailable(
                "The store cannot be reached; nothing was sent. Try again in a moment."
            )
        case BrokenOff():
            return Unavailable("The store broke off; whether a write landed is unknown.")
        case _:
            return Unavailable(
                "The store did not answer in time; whether a write landed is unknown."
            )


def _read(operation: Operation, response: Response) -> Any:
    if response.status not in SUCCESS:
        raise error_from(_problem(response))
    try:
        return operation.decode_result(response.body)
    except ValidationError as error:
        raise Internal(
            "The store's answer cannot be read; both sides must be of one release."
        ) from error


def _problem(response: Response) -> Problem:
    try:
        return Problem.model_validate_json(response.body)
    except ValidationError:
        code = Unavailable.code if response.status in FAULT else Internal.code
        message = (
            f"Something that is no store answered with status {response.status}; "
            "the store's address should be checked."
        )
        return Problem(code=code, message=message)
