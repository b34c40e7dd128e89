"""Server-sent events, as they come in pieces."""

import pytest

from memory_bridge.sse import events, message_data

STREAM = (
    b": following\nid: 7\n\n"
    b'id: 8\ndata: {"a":\ndata: 1}\n\n'
    b": heartbeat\r\n\r\n"
    b"event: dropped\rdata: gone\r\r"
    b"data: cut off"
)


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_each_event_comes_with_the_newest_id(size):
    pieces = [STREAM[start : start + size] for start in range(0, len(STREAM), size)]
    told = [(event.name, event.data, event.last_id) for event in events(pieces)]
    assert told == [
        (b"message", b"", "7"),
        (b"message", b'{"a":\n1}', "8"),
        (b"message", b"", "8"),
        (b"dropped", b"gone", "8"),
    ]
    assert list(message_data(pieces)) == [b'{"a":\n1}']
