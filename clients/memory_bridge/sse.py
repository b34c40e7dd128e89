"""Server-sent events, parsed by hand."""

import re
from collections.abc import Iterable, Iterator

from memory_bridge.errors import ProtocolError
from memory_bridge.messages import MAX_MESSAGE_BYTES

_LINE_END = re.compile(rb"\r\n|\r|\n")
_BOM = b"\xef\xbb\xbf"


def message_data(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yields the data of each complete `message` event that is not empty."""
    data: list[bytes] = []
    size = 0
    event = b"message"
    for line in _lines(chunks):
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if not line:
            if event == b"message" and any(data):
                yield b"\n".join(data)
            data, size, event = [], 0, b"message"
        elif name == b"data":
            size = _within_limit(size + len(value))
            data.append(value)
        elif name == b"event":
            event = value or b"message"


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
