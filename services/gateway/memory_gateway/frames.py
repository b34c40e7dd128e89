"""JSON-RPC messages as bytes, one a line on stdio, and an answer to what is not one."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError
from pydantic_core import from_json

LONGEST_LINE = 4 * 1024 * 1024
EDGE = 4096
NO_MESSAGE = (
    "This is not one JSON-RPC 2.0 message: an object with jsonrpc, method and, for a request, id."
)
TOO_LONG_A_NUMBER = "number out of range"
UNREADABLE_NUMBER = "A number in the message has too many digits to be read: send it as text."
BAD_ID = "The id of a request must be text or a whole number."

# The id of a message whose whole cannot be read: before the params or as the last member.
_OTHERS = rb'(?:"(?:jsonrpc|method)"\s*:\s*"[^"\\]*"\s*,\s*)*'
_ID = rb'"id"\s*:\s*(?:(?P<number>-?\d{1,18})|"(?P<text>[^"\\\x00-\x1f\x80-\xff]{0,256})")\s*'
_ID_IN_HEAD = re.compile(rb"\s*\{\s*" + _OTHERS + _ID + rb"[,}]")
_ID_IN_TAIL = re.compile(
    rb"[}\]]\s*,\s*" + _OTHERS + _ID + rb'(?:,\s*"(?:jsonrpc|method)"\s*:\s*"[^"\\]*"\s*)*\}\s*\Z'
)


@dataclass(frozen=True)
class Unreadable:
    """What is no message, as the error to answer it with."""

    answer: JSONRPCError


Frame = JSONRPCMessage | Unreadable


@dataclass
class LineReader:
    """Cuts bytes into lines of bounded length; of a longer one only head and tail are kept."""

    longest: int = LONGEST_LINE
    _pieces: list[bytes] = field(default_factory=list[bytes])
    _length: int = 0
    _head: bytes = b""
    _tail: bytes = b""

    def feed(self, chunk: bytes) -> Iterator[Frame]:
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            self._add(piece)
            yield from self.end()
        self._add(rest)

    def end(self) -> Iterator[Frame]:
        """Gives what the line that ends here says; nothing for an empty line."""
        if self._length > self.longest:
            yield _too_long(self._head, self._tail, self.longest)
        elif line := b"".join(self._pieces).strip():
            yield parse(line)
        self._pieces, self._length, self._head, self._tail = [], 0, b"", b""

    def _add(self, piece: bytes) -> None:
        self._length += len(piece)
        if len(self._head) < EDGE:
            self._head = (self._head + piece)[:EDGE]
        self._tail = (self._tail + piece[-EDGE:])[-EDGE:]
        if self._length > self.longest:
            self._pieces.clear()
        elif piece:
            self._pieces.append(piece)


def parse(text: bytes) -> Frame:
    try:
        message = jsonrpc_message_adapter.validate_json(text, by_name=False)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)[0]
        return _unreadable(text, found["type"], found["msg"])
    if isinstance(message, JSONRPCNotification) and "id" in from_json(text):
        return _error(None, INVALID_REQUEST, BAD_ID)
    return message


def _unreadable(text: bytes, kind: str, detail: str) -> Unreadable:
    number = _seen_id(text[:EDGE], text[-EDGE:])
    if kind == "json_invalid":
        where = detail.removeprefix("Invalid JSON: ")
        if where.startswith(TOO_LONG_A_NUMBER):
            return _error(number, PARSE_ERROR, UNREADABLE_NUMBER)
        return _error(number, PARSE_ERROR, f"The message is not JSON in UTF-8: {where}.")
    return _error(number, INVALID_REQUEST, NO_MESSAGE)


def _too_long(head: bytes, tail: bytes, longest: int) -> Unreadable:
    message = f"The message is longer than {longest} bytes, which is the most that is read."
    return _error(_seen_id(head, tail), INVALID_REQUEST, message)


def _seen_id(head: bytes, tail: bytes) -> int | str | None:
    match = _ID_IN_HEAD.match(head) or _ID_IN_TAIL.search(tail)
    if match is None:
        return None
    number: bytes | None = match["number"]
    return int(number) if number is not None else match["text"].decode()


def _error(number: int | str | None, code: int, message: str) -> Unreadable:
    error = ErrorData(code=code, message=message)
    return Unreadable(JSONRPCError(jsonrpc="2.0", id=number, error=error))
