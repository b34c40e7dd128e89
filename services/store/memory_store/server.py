"""A store served over HTTP: the operations of the wire behind a shared secret."""

import hmac
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import FastAPI, Request, Response, Security
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from memory_store.contract import ERRORS, Internal, Invalid, Problem, Store, StoreError
from memory_store.wire import OPERATIONS, Operation, authorization

# A hundred writes, value and expected value of 16,384 characters each, every one escaped in six
# bytes, come to 20 MB.
MAX_BODY_BYTES = 32 * 1024 * 1024
HEALTH_PATH = "/healthz"

log = logging.getLogger(__name__)


class TooLarge(Invalid):
    status = 413


class Unauthorized(StoreError):
    code = "unauthorized"
    status = 401


class UnknownOperation(StoreError):
    code = "unknown_operation"
    status = 404


_STATUSES = {error.status for error in (*ERRORS.values(), TooLarge, Unauthorized)}


def build_app(store: Store, secret: str) -> FastAPI:
    """Returns the application that serves `store` to whoever knows `secret`."""
    app = FastAPI(title="Memory Bridge store", docs_url=None, redoc_url=None)
    app.router.redirect_slashes = False
    app.add_middleware(Door, expected=authorization(secret))
    app.add_exception_handler(HTTPException, _unknown)
    app.add_api_route(HEALTH_PATH, _health, operation_id="health")
    for operation in OPERATIONS.values():
        _add_operation(app, operation, store)
    return app


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


class OperationRoute(APIRoute):
    """FastAPI documents the endpoint; the wire reads and answers it.

    FastAPI would validate what `json.loads` made, where base64 is only text. Reading the
    arguments happens on the worker thread too: megabytes of them must not hold up the loop.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        operation = OPERATIONS[self.name]

        async def handle(request: Request) -> Response:
            try:
                body = await _read_body(request)
            except TooLarge as error:
                return _refusal(error)
            return await run_in_threadpool(_answer, operation, self.endpoint, body)

        return handle


def _add_operation(app: FastAPI, operation: Operation, store: Store) -> None:
    method = getattr(store, operation.name)

    def endpoint(arguments: Any) -> Any:
        return method(**vars(arguments))

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
        route_class_override=OperationRoute,
    )


def _answer(operation: Operation, endpoint: Callable[[Any], Any], body: bytes) -> Response:
    try:
        result = endpoint(operation.decode_arguments(body))
        return Response(operation.encode_result(result), media_type="application/json")
    except StoreError as error:
        return _refusal(error)
    except Exception:
        log.exception("%s failed", operation.name)
        return _refusal(Internal("The store failed; its log says why."))


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
