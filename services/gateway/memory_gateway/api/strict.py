"""Requests are read exactly: what is not as it should be is refused, never repaired or ignored."""

import json
import re
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from difflib import get_close_matches
from math import isfinite
from typing import Any, NoReturn
from urllib.parse import unquote_to_bytes

import anyio.to_thread
from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from memory_gateway.api.document import Operations
from memory_store.contract import Invalid

Handler = Callable[[Request], Coroutine[Any, Any, Response]]

JSON = "application/json"
LONG = 64 * 1024
NOT_JSON = f"The body must be {JSON}: say so in Content-Type."
NOT_UTF8 = "The body is not UTF-8."
TOO_DEEP = "The body is nested too deeply."
ENCODING = "The query is not percent-encoded UTF-8."
_BROKEN_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


class StrictRoute(APIRoute):
    """Refuses parameters that the operation does not have or that are there twice, and a body that
    is not JSON as RFC 8259 has it."""

    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()
        has_body = self.body_field is not None
        operation = self.operation_id or self.unique_id

        async def strict(request: Request) -> Response:
            _check_parameters(request, operation)
            if has_body:
                request = await _with_body(request)
            return await handle(request)

        return strict


class _JsonRequest(Request):
    """A request whose body was read already."""

    def __init__(self, request: Request, body: bytes, value: Any) -> None:
        super().__init__(request.scope, request.receive)
        self._text = body
        self._value = value

    async def body(self) -> bytes:
        return self._text

    async def json(self) -> Any:
        return self._value


async def _with_body(request: Request) -> Request:
    body = await request.body()
    if not body:
        return request
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        raise HTTPException(415, NOT_JSON)
    # Megabytes of numbers take a second, in which nobody else would be served.
    value = parse(body) if len(body) < LONG else await anyio.to_thread.run_sync(parse, body)
    return _JsonRequest(request, body, value)


def query_pairs(request: Request) -> list[tuple[str, str]]:
    """The parameters in their order. Raises `Invalid` for what is not percent-encoded UTF-8."""
    raw: bytes = request.scope["query_string"]
    if _BROKEN_ESCAPE.search(raw):
        raise Invalid(ENCODING)
    try:
        return [_pair(part) for part in raw.split(b"&") if part]
    except UnicodeDecodeError:
        raise Invalid(ENCODING) from None


def _pair(part: bytes) -> tuple[str, str]:
    name, _, value = part.replace(b"+", b" ").partition(b"=")
    return unquote_to_bytes(name).decode(), unquote_to_bytes(value).decode()


def _check_parameters(request: Request, operation_id: str) -> None:
    operations: Operations = request.app.state.operations
    known = operations.query(operation_id)
    seen: set[str] = set()
    for name, _ in query_pairs(request):
        if name not in known:
            _refuse_unknown(name, known)
        if name in seen and not known[name]:
            raise Invalid(f"`{name}` was given more than once.", argument=name)
        seen.add(name)
    for name in operations.headers(operation_id):
        if len(request.headers.getlist(name)) > 1:
            raise Invalid(f"The header {name} was sent more than once.", argument=name)


def _refuse_unknown(name: str, known: Iterable[str]) -> NoReturn:
    names = sorted(known)
    near = get_close_matches(name, names, n=1)
    hint = f" Did you mean `{near[0]}`?" if near else ""
    allowed = f"Allowed: {', '.join(names)}." if names else "None is allowed here."
    message = f"`{name[:60]}` is not a parameter of this query.{hint} {allowed}"
    raise Invalid(message, argument=name[:60])


def parse(body: bytes) -> Any:
    """Returns the JSON value. Raises `Invalid` for what some read one way and some another:
    repeated names, NaN, numbers beyond a float, lone surrogates."""
    try:
        value = json.loads(
            body.decode(),
            object_pairs_hook=_unique,
            parse_constant=_refuse_constant,
            parse_float=_finite,
        )
        if rb"\u" in body:
            _check_text(value)
    except Invalid:
        raise
    except UnicodeDecodeError:
        raise Invalid(NOT_UTF8) from None
    except RecursionError:
        raise Invalid(TOO_DEEP) from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise Invalid(f"The body is not JSON: {error.msg.lower()} at {place}.") from None
    except ValueError:
        raise Invalid("The body has a number that is too long.") from None
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise Invalid(f"The body has the name {_shown(twice)} twice in one object.")
    return members


def _refuse_constant(name: str) -> NoReturn:
    raise Invalid(f"The body has the number {name}, which JSON does not know.")


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise Invalid(f"The body has the number {text[:60]}, which is too large.")
    return number


def _check_text(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise Invalid("The body has a lone surrogate, which is not a character.") from None


def _shown(text: str) -> str:
    return json.dumps(text[:60])
