"""Whatever goes wrong under /api becomes problem details."""

from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from memory_gateway.api.document import Operations
from memory_gateway.observation.call import CALL, Call
from memory_gateway.problems import MEDIA_TYPE, ProblemDetails, problem, problem_of
from memory_store.contract import Internal, Invalid, StoreError

NOT_HERE = "There is nothing at this address; /api/v1/openapi.json describes what there is."
NOT_SERVED = "This method is not served at this address; allowed: {allowed}."
FAILED = "Something went wrong inside the gateway; its log says what."
SOON = {"Retry-After": "1"}


def add_refusals(app: FastAPI) -> None:
    app.add_exception_handler(StoreError, _store_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _fault)


def respond(details: ProblemDetails, headers: dict[str, str]) -> Response:
    full = headers | {"Cache-Control": "no-store"}
    return Response(details.encode(), details.status, full, media_type=MEDIA_TYPE)


def refusal(error: StoreError, request_id: str | None) -> Response:
    """A conflict tells the version that won as its `ETag` too."""
    headers = dict(SOON) if error.retryable else {}
    if error.current:
        headers["ETag"] = f'"{error.current.version}"'
    return respond(problem_of(error, request_id), headers)


def _id(request: Request) -> str | None:
    call: Call | None = request.scope.get(CALL)
    return call.id if call else None


async def _store_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, StoreError):
        raise error
    call: Call | None = request.scope.get(CALL)
    if call:
        call.note(error.code)
    return refusal(error, _id(request))


async def _fault(request: Request, _error: Exception) -> Response:
    return refusal(Internal(FAILED), _id(request))


async def _http_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    detail, headers = error.detail, dict(error.headers or {})
    match error.status_code:
        case 404:
            detail = NOT_HERE
        case 405:
            operations: Operations = request.app.state.operations
            headers["Allow"] = operations.methods(request.url.path) or "GET, HEAD"
            detail = NOT_SERVED.format(allowed=headers["Allow"])
        case _:
            pass
    return respond(problem(error.status_code, detail, _id(request)), headers)


async def _invalid(request: Request, error: Exception) -> Response:
    if not isinstance(error, RequestValidationError):
        raise error
    return await _store_error(request, _sentence(error.errors()))


def _sentence(errors: Any) -> Invalid:
    """The most telling one: a misspelled name first, since what it was meant for is missing too."""
    first = next((error for error in errors if error["type"] == "extra_forbidden"), errors[0])
    source, *place = first["loc"]
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)[1:]
    if not path:
        return Invalid("A JSON object is required as the body.")
    argument = str(place[0])[:60]
    where = "the body" if source == "body" else "the query"
    match first["type"]:
        case "extra_forbidden":
            return Invalid(f"`{path[:60]}` is not a field of {where}.", argument=argument)
        case "missing":
            return Invalid(f"`{path}` is required in {where}.", argument=argument)
        case _:
            message = first["msg"].removeprefix("Value error, ")
            return Invalid(f"`{path}`: {message}.", argument=argument)
