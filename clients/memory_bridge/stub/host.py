"""The program that started the stub: lines from its stdin, lines to its stdout."""

import json
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from memory_bridge.messages import MAX_MESSAGE_BYTES, Message, as_object, encode

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
_CHUNK_BYTES = 64 * 1024


class NotAMessageError(Exception):
    """A line that cannot be taken; the text says why. `request_id` is its id, if it has one."""

    def __init__(self, message: str, code: int, request_id: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.request_id = request_id


class Host:
    """Nothing but messages reaches its stdout: whatever else prints lands on stderr.

    `on_gone` is called, from any thread, when the host does not read any more.
    """

    def __init__(self, incoming: int, outgoing: int, on_gone: Callable[[], None]) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._on_gone = on_gone
        self._writing = threading.Lock()

    @classmethod
    def claim(cls, on_gone: Callable[[], None]) -> "Host":
        """Returns the host on descriptors of its own; 1 is stderr from here on, and 0 is empty.

        Raises OSError when stdin or stdout is closed.
        """
        host = cls(os.dup(0), os.dup(1), on_gone)
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        try:
            os.dup2(2, 1)
        except OSError:
            os.dup2(nothing, 1)
        return host

    def lines(self) -> Iterator[bytes]:
        """Yields each line that holds anything, until the host closes its end.

        One that is longer than any message may be is yielded empty, once.
        """
        parts: list[bytes] = []
        size = 0
        while chunk := self._read():
            first, *rest = chunk.split(b"\n")
            parts, size = _extended(parts, size, first)
            for following in rest:
                yield from _line(parts, size)
                parts, size = [following], len(following)
        yield from _line(parts, size)

    def say(self, message: Message) -> None:
        line = encode(message) + b"\n"
        try:
            with self._writing:
                self._write(line)
        except OSError:
            self._on_gone()

    def _read(self) -> bytes:
        try:
            return os.read(self._incoming, _CHUNK_BYTES)
        except OSError:
            return b""

    def _write(self, line: bytes) -> None:
        rest = memoryview(line)
        while rest:
            rest = rest[os.write(self._outgoing, rest) :]


def _extended(parts: list[bytes], size: int, more: bytes) -> tuple[list[bytes], int]:
    """Of a line that is too long only the length is kept."""
    size += len(more)
    return ([] if size > MAX_MESSAGE_BYTES else [*parts, more]), size


def _line(parts: list[bytes], size: int) -> Iterator[bytes]:
    line = b"".join(parts)
    if size > MAX_MESSAGE_BYTES or line.strip():
        yield line


def read_message(line: bytes) -> Message:
    """Returns the message. Raises `NotAMessageError` for what is none."""
    if not line:
        message = f"The message is longer than {MAX_MESSAGE_BYTES} bytes."
        raise NotAMessageError(message, INVALID_REQUEST)
    try:
        message = as_object(json.loads(line, parse_constant=_no_json))
    except (ValueError, RecursionError) as error:
        raise NotAMessageError("The line is not JSON.", PARSE_ERROR) from error
    if message is None or message.get("jsonrpc") != "2.0":
        raise NotAMessageError("The line is not a JSON-RPC 2.0 message.", INVALID_REQUEST)
    _check(message)
    return message


def _check(message: Message) -> None:
    known = message.get("id") if _is_id(message.get("id")) else None
    if "id" in message and known is None and "method" in message:
        told = "The id of a request is a text or a whole number."
        raise NotAMessageError(told, INVALID_REQUEST)
    if "method" in message and not isinstance(message["method"], str):
        raise NotAMessageError("The method is not a text.", INVALID_REQUEST, known)
    if "params" in message and as_object(message["params"]) is None:
        raise NotAMessageError("The params are not an object.", INVALID_REQUEST, known)
    if "method" not in message and "id" not in message:
        told = "The message is neither a request nor an answer."
        raise NotAMessageError(told, INVALID_REQUEST)


def _is_id(value: object) -> bool:
    return isinstance(value, (str, int)) and not isinstance(value, bool)


def _no_json(constant: str) -> NoReturn:
    raise ValueError(constant)
