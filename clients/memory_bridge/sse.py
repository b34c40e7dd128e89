"""Server-sent events, parsed by hand."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from memory_bridge.errors import ProtocolError
from memory_bridge.messages import MAX_MESSAGE_BYTES

_LINE_END = re.compile(rb"\r\n|\r|\n")
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class ServerSentEvent:
    """`last_id` is the newest id so far, of this event or of one before."""

    name: bytes
    data: bytes
    last_id: str | None


def message_data(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yields the data of each complete `message` event that is not empty."""
    return (event.data for event in events(chunks) if event.name == b"message" and event.data)


def events(chunks: Iterable[bytes]) -> Iterator[ServerSentEvent]:
    """Yields each complete event, also one without data, which may tell an id."""
    data: list[bytes] = []
    size = 0
    event, last_id = b"message", None
    for line in _lines(chunks):
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if not line:
            yield ServerSentEvent(event, b"\n".join(data) if any(data) else b"", last_id)
            data, size, event = [], 0, b"message"
        elif name == b"data":
            size = _within_limit(size + len(value))
            data.append(value)
        elif name == b"event":
            event = value or b"message"
        elif name == b"id":
            last_id = value.decode("utf-8", "replace") or None


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    parts: list[bytes] = []
    size = 0
    after_return = False
    first = True
    for chunk in chunks:
        # A line end may be cut in two: "\r" has ended the line already, its "\n" ends no other.
        text = chunk.removeprefix(b"\n") if after_return else chunk
        after_return = chunk.endswith(b"\r")
        begin, *rest = _LINE_END.split(text)
        parts.append(begin)
        size = _within_limit(size + len(begin))
        for following in rest:
            line = b"".join(parts)
            yield line.removeprefix(_BOM) if first else line
            first, parts, size = False, [following], len(following)


def _within_limit(size: int) -> int:
    if size > MAX_MESSAGE_BYTES:
        raise ProtocolError(f"The server sent an event longer than {MAX_MESSAGE_BYTES} bytes.")
    return size
