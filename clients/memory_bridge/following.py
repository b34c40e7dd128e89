"""The trail as it grows: its live stream, taken up again wherever it breaks."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from memory_bridge import exits, sse
from memory_bridge.errors import ClientError, ProtocolError
from memory_bridge.messages import as_object
from memory_bridge.pauses import pauses
from memory_bridge.rest import Query, RestClient

Event = dict[str, Any]


class Follower:
    """`check` raises when there is no point in trying again; `note` takes sentences for people."""

    def __init__(
        self,
        rest: RestClient,
        query: Query,
        *,
        check: Callable[[], None],
        note: Callable[[str], None],
        after: str | None = None,
    ) -> None:
        self._rest = rest
        self._query = query
        self._check = check
        self._note = note
        self._last_id = after

    def events(self) -> Iterator[Event | None]:
        """Yields each event once and in order, for ever; None when there is no more for now.

        Raises what the HTTP interface raises until it has answered for the first time, later only
        what a repetition cannot mend.
        """
        waits, is_lost = pauses(), False
        while True:
            try:
                for event in self._connected():
                    waits, is_lost = pauses(), False
                    yield event
            except ClientError as error:
                if self._last_id is None or not exits.passes(error):
                    raise
                self._check()
                if not is_lost:
                    self._note(f"{error} It goes on after event {self._last_id}.")
                is_lost = True
            time.sleep(next(waits))

    def _connected(self) -> Iterator[Event | None]:
        """Yields until the server ends the stream."""
        stream = self._rest.stream("events", "stream", query=self._query, last_id=self._last_id)
        with stream as chunks:
            for told in sse.events(chunks):
                self._last_id = told.last_id or self._last_id
                if told.name != b"message":
                    return
                yield _event(told.data) if told.data else None


def _event(data: bytes) -> Event:
    try:
        event = as_object(json.loads(data))
    except ValueError:
        event = None
    if event is None:
        raise ProtocolError("The stream of events holds what is no event.")
    return event
