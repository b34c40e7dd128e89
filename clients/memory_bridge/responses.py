"""What an HTTP response says: its body, and why a request was refused."""

from collections.abc import Iterator
from http import HTTPStatus
from http.client import HTTPResponse

from memory_bridge.errors import (
    ClientError,
    ConnectionLost,
    Forbidden,
    HTTPFailure,
    MCPError,
    ProtocolError,
    SessionLost,
    Unauthorized,
)
from memory_bridge.messages import MAX_MESSAGE_BYTES, parse, result_of

_CHUNK_BYTES = 64 * 1024
_CARRIES_JSON_RPC = (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND)


def content_type(response: HTTPResponse) -> str:
    return response.getheader("Content-Type", "").partition(";")[0].strip().lower()


def chunks(response: HTTPResponse) -> Iterator[bytes]:
    """Yields the body as it arrives. Raises `ConnectionLost` when it ends before its length."""
    # read1 returns what has come, but in some Python 3.11 it overruns a given length.
    read = response.read1 if response.length is None else response.read
    while chunk := read(_CHUNK_BYTES):
        yield chunk
    if response.length:
        raise ConnectionLost("The server ended its answer in the middle.")


def body(response: HTTPResponse) -> bytes:
    parts: list[bytes] = []
    size = 0
    for chunk in chunks(response):
        parts.append(chunk)
        size += len(chunk)
        if size > MAX_MESSAGE_BYTES:
            raise ProtocolError(f"The server's answer is longer than {MAX_MESSAGE_BYTES} bytes.")
    return b"".join(parts)


def refusal(response: HTTPResponse, *, has_session: bool) -> ClientError:
    """Returns what a status that is not a success means, as the error to raise."""
    status = response.status
    if location := response.getheader("Location"):
        return ProtocolError(f"The server has moved: use {location} as its URL.")
    told = _json_rpc_error(body(response))
    reason = told.message if told else response.reason or "no reason given"
    if status == HTTPStatus.UNAUTHORIZED:
        return Unauthorized(f"The server wants a valid bearer token (401): {reason}")
    if status == HTTPStatus.FORBIDDEN:
        return Forbidden(f"The server does not allow this (403): {reason}")
    if status == HTTPStatus.NOT_FOUND and has_session:
        return SessionLost("The server no longer knows this session.")
    if told and status in _CARRIES_JSON_RPC:
        return told
    wait = response.getheader("Retry-After", "")
    again = f" Try again in {wait} seconds." if wait.isdigit() else ""
    told_so = f"The server refused the request ({status}): {reason}{again}"
    return HTTPFailure(told_so, status, float(wait) if wait.isdigit() else None)


def _json_rpc_error(text: bytes) -> MCPError | None:
    try:
        result_of(parse(text))
    except MCPError as error:
        return error
    except ProtocolError:
        return None
    return None
