"""The store at the other end of the wire, as one more holder of the contract."""

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any

import httpx2
from pydantic import ValidationError

from memory_store.contract import Internal, Problem, Store, Unavailable, Word, error_from
from memory_store.limits import MAX_HOLD_SECONDS, MAX_WAIT_SECONDS
from memory_store.wire import CLIENT_IDLE_SECONDS, OPERATIONS, Operation, authorization

MAX_CONNECTIONS = 1024
"""More than there are callers: a read that waited for a connection would wait behind writes that
wait for the lock."""
KEPT_CONNECTIONS = 64
CONNECT_SECONDS = 2.0

log = logging.getLogger(__name__)


class HttpStore(Store):
    """The store that serves at `url`; its methods are drawn from the contract, below this class.

    `timeout` is how long an answer may take, in seconds. Nobody listening, a broken connection
    and a late answer raise `Unavailable`, a refused secret `Internal`.
    """

    def __init__(self, url: str, secret: str, *, timeout: float = 30.0) -> None:
        self._timeout = timeout
        self._http = httpx2.Client(
            base_url=url,
            headers=[(b"Authorization", authorization(secret))],
            limits=httpx2.Limits(
                max_connections=MAX_CONNECTIONS,
                max_keepalive_connections=KEPT_CONNECTIONS,
                keepalive_expiry=CLIENT_IDLE_SECONDS,
            ),
            trust_env=False,  # the secret is not for a proxy that the environment names
        )
        if self._http.base_url.scheme not in ("http", "https") or not self._http.base_url.host:
            raise ValueError(f"{url} is not a store's address; it looks like http://host:8100")

    def close(self) -> None:
        self._http.close()

    def call(self, operation: Operation, arguments: Word) -> Any:
        body = operation.encode_arguments(arguments)
        if self._http.is_closed:
            raise Unavailable("The connection to the store is closed.")
        timeout = httpx2.Timeout(self._timeout + _waiting(arguments), connect=CONNECT_SECONDS)
        tries = 2 if _is_repeatable(operation, arguments) else 1
        return _read(operation, self._send(operation.path, body, timeout, tries))

    def _send(self, path: str, body: bytes, timeout: httpx2.Timeout, tries: int) -> httpx2.Response:
        try:
            return self._http.post(path, content=body, timeout=timeout)
        except httpx2.TransportError as error:
            log.warning("%s%s: %r", self._http.base_url, path, error)
            if tries > 1 and isinstance(error, _BROKEN):
                return self._send(path, body, timeout, tries - 1)
            raise _unavailable(error) from error


def _draw(operation: Operation) -> Callable[..., Any]:
    @wraps(operation.method)
    def method(self: HttpStore, *args: Any, **kwargs: Any) -> Any:
        return self.call(operation, operation.bind(*args, **kwargs))

    return method


for _operation in OPERATIONS.values():
    setattr(HttpStore, _operation.name, _draw(_operation))


# What breaks under a request that may have arrived: most often a connection that a restarted
# store no longer knows. A refused or late connection is not among them: asking again at once
# would meet the same, and only doubles the wait.
_BROKEN = (httpx2.ReadError, httpx2.WriteError, httpx2.CloseError, httpx2.RemoteProtocolError)

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


def _unavailable(error: httpx2.TransportError) -> Unavailable:
    if isinstance(error, httpx2.ReadTimeout | httpx2.WriteTimeout):
        return Unavailable("The store did not answer in time; whether a write landed is unknown.")
    if isinstance(error, _BROKEN):
        return Unavailable("The store broke off; whether a write landed is unknown.")
    return Unavailable("The store cannot be reached; nothing was sent. Try again in a moment.")


def _read(operation: Operation, response: httpx2.Response) -> Any:
    if not response.is_success:
        raise error_from(_problem(response))
    try:
        return operation.decode_result(response.content)
    except ValidationError as error:
        raise Internal(
            "The store's answer cannot be read; both sides must be of one release."
        ) from error


def _problem(response: httpx2.Response) -> Problem:
    try:
        return Problem.model_validate_json(response.content)
    except ValidationError:
        code = Unavailable.code if response.is_server_error else Internal.code
        message = (
            f"Something that is no store answered with status {response.status_code}; "
            "the store's address should be checked."
        )
        return Problem(code=code, message=message)
