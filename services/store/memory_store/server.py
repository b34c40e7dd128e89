"""A store served over HTTP: the operations of the wire behind a shared secret."""

import asyncio
import hmac
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fastapi import FastAPI, Request, Response, Security
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from memory_store.contract import (
    ERRORS,
    Forbidden,
    Internal,
    Invalid,
    Problem,
    Store,
    StoreError,
    fact_of,
)
from memory_store.wire import OPERATIONS, Operation, authorization

# A hundred writes, value and expected value of 16,384 characters each, every one escaped in six
# bytes, come to 20 MB.
MAX_BODY_BYTES = 32 * 1024 * 1024
HEALTH_PATH = "/healthz"
# Those that answer when something happens, or time has passed, wait on threads of their own: on
# those of the others so many would keep everybody from being answered.
WAITING = frozenset({"event_follow", "lock_hold"})
WAITING_AT_ONCE = 256
# Reads never wait for the write lock, and so not behind as many writes that do.
READING = frozenset(
    {
        "fact_get",
        "fact_get_many",
        "fact_list",
        "fact_search",
        "event_list",
        "namespace_list",
        "stats",
        "tag_list",
        "token_list",
        "token_verify",
    }
)
READ_AT_ONCE = 16
WRITTEN_AT_ONCE = 64

log = logging.getLogger(__name__)


class TooLarge(Invalid):
    status = 413


class Unauthorized(StoreError):
    code = "unauthorized"
    status = 401


class UnknownOperation(StoreError):
    code = "unknown_operation"
    status = 404


# Who may do what is the gateway's affair: `Forbidden` does not come from here.
_STATUSES = {error.status for error in (*ERRORS.values(), TooLarge, Unauthorized)} - {
    Forbidden.status
}


def build_app(store: Store, secret: str) -> ASGIApp:
    """Returns the application that serves `store` to whoever knows `secret`."""
    app = FastAPI(title="Memory Bridge store", docs_url=None, redoc_url=None)
    app.router.redirect_slashes = False
    app.add_exception_handler(HTTPException, _unknown)
    app.add_api_route(HEALTH_PATH, _health, operation_id="health")
    for operation in OPERATIONS.values():
        _document(app, operation)
    return Door(Operations(app, store), authorization(secret))


class Door:
    """Refuses whoever does not bring the secret, before the body is read."""

    def __init__(self, app: ASGIApp, expected: bytes) -> None:
        self._app = app
        self._expected = expected

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or self._admits(scope):
            await self._app(scope, receive, send)
        else:
            await _refusal(Unauthorized("The secret is not the store's."))(scope, receive, send)

    def _admits(self, scope: Scope) -> bool:
        given = dict(scope["headers"]).get(b"authorization", b"")
        return scope["path"] == HEALTH_PATH or hmac.compare_digest(given, self._expected)


class Operations:
    """Reads and answers the operations; what else there is goes on to the application.

    FastAPI documents them and never sees them: its way to an endpoint costs more than a write.
    """

    def __init__(self, app: ASGIApp, store: Store) -> None:
        self._app = app
        self._methods = {
            operation.path: (operation, getattr(store, operation.name))
            for operation in OPERATIONS.values()
        }
        # Most writes are these, and a thread for each to wait in costs as much as the write.
        self._set_soon = getattr(store, "fact_set_soon", None)
        self._waiting = ThreadPoolExecutor(WAITING_AT_ONCE, "waiting")
        self._reading = ThreadPoolExecutor(READ_AT_ONCE, "reading")
        self._writing = ThreadPoolExecutor(WRITTEN_AT_ONCE, "writing")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = self._methods.get(scope["path"]) if scope.get("method") == "POST" else None
        if method is None:
            await self._app(scope, receive, send)
        else:
            response = await self._answer(*method, Request(scope, receive))
            await response(scope, receive, send)

    async def _answer(
        self, operation: Operation, method: Callable[..., Any], request: Request
    ) -> Response:
        try:
            body = await _read_body(request)
            result = await self._result(operation, method, body)
            return Response(result, media_type="application/json")
        except StoreError as error:
            return _refusal(error)
        except Exception:
            log.exception("%s failed", operation.name)
            return _refusal(Internal("The store failed; its log says why."))

    async def _result(self, operation: Operation, method: Callable[..., Any], body: bytes) -> bytes:
        if operation.name == "fact_set" and self._set_soon is not None:
            arguments = operation.decode_arguments(body)
            outcome = await asyncio.wrap_future(self._set_soon(**vars(arguments)))
            return operation.encode_result(fact_of(outcome))
        threads = self._threads(operation.name)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(threads, _call, operation, method, body)

    def _threads(self, name: str) -> ThreadPoolExecutor:
        if name in WAITING:
            return self._waiting
        return self._reading if name in READING else self._writing


def _document(app: FastAPI, operation: Operation) -> None:
    def endpoint(arguments: Any) -> None: ...

    endpoint.__annotations__ = {"arguments": operation.arguments}
    app.router.add_api_route(
        operation.path,
        endpoint,
        methods=["POST"],
        name=operation.name,
        operation_id=operation.name,
        description=operation.method.__doc__,
        response_model=operation.returns,
        responses={status: {"model": Problem} for status in sorted(_STATUSES)},
        # Only for the document: the door has checked by then.
        dependencies=[Security(HTTPBearer())],
    )


def _call(operation: Operation, method: Callable[..., Any], body: bytes) -> bytes:
    return operation.encode_result(method(**vars(operation.decode_arguments(body))))


async def _read_body(request: Request) -> bytes:
    announced = request.headers.get("content-length", "")
    body = bytearray()
    if announced.isdecimal() and int(announced) > MAX_BODY_BYTES:
        raise _too_large()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise _too_large()
    return bytes(body)


def _too_large() -> TooLarge:
    return TooLarge(f"The arguments have more than {MAX_BODY_BYTES:,} bytes; send less at once.")


def _refusal(error: StoreError) -> Response:
    headers = {"Retry-After": "1"} if error.retryable else {}
    if error.status == Unauthorized.status:
        headers["WWW-Authenticate"] = "Bearer"
    return Response(
        error.problem().model_dump_json(), error.status, headers, media_type="application/json"
    )


async def _unknown(request: Request, _error: Exception) -> Response:
    return _refusal(
        UnknownOperation(f"The store has no {request.method} {request.url.path}; is it older?")
    )


async def _health() -> dict[str, str]:
    return {"status": "ok"}
