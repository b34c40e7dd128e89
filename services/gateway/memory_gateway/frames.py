"""The frames of stdio: one JSON-RPC message a line, and an answer to what is not one."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

LONGEST_LINE = 4 * 1024 * 1024
EDGE = 4096

# The id of a message whose whole cannot be read: before the params or as the last member.
_OTHERS = rb'(?:"(?:jsonrpc|method)"\s*:\s*"[^"\\]*"\s*,\s*)*'
_ID = rb'"id"\s*:\s*(?:(?P<number>-?\d{1,18})|"(?P<text>[^"\\\x00-\x1f\x80-\xff]{0,256})")\s*'
_ID_IN_HEAD = re.compile(rb"\s*\{\s*" + _OTHERS + _ID + rb"[,}]")
_ID_IN_TAIL = re.compile(
    rb"[}\]]\s*,\s*" + _OTHERS + _ID + rb'(?:,\s*"(?:jsonrpc|method)"\s*:\s*"[^"\\]*"\s*)*\}\s*\Z'
)


@dataclass(frozen=True)
class Unreadable:
    """A line that is no message, as the error to answer it with."""

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


def parse(line: bytes) -> Frame:
    try:
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)[0]
        return _unreadable(line, found["type"], found["msg"])


def _unreadable(line: bytes, kind: str, detail: str) -> Unreadable:
    number = _seen_id(line[:EDGE], line[-EDGE:])
    if kind == "json_invalid":
        return _error(number, PARSE_ERROR, f"The line is not JSON in UTF-8. {detail}.")
    return _error(number, INVALID_REQUEST, "The line is not a JSON-RPC 2.0 message.")


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
