"""What waits to be sent to one client."""

import asyncio
from collections import deque

MOST_BYTES = 8 * 1024 * 1024


class Outbox:
    """Messages in order, bounded: nobody ever waits for a client that does not read. With a
    message too many it is closed, and what waits in it is lost."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._waiting = deque[str]()
        self._bytes = 0
        self._news = asyncio.Event()
        self.closed = False
        self.overflowed = False

    def put(self, text: str) -> None:
        """Does nothing once the outbox is closed."""
        if self.closed:
            return
        self._waiting.append(text)
        self._bytes += len(text)
        self._news.set()
        if self._bytes > self._most_bytes:
            self.overflowed = True
            self._waiting.clear()
            self.close()

    async def take(self) -> str | None:
        """Returns the next message, None after the last."""
        while not self._waiting:
            if self.closed:
                return None
            self._news.clear()
            await self._news.wait()
        text = self._waiting.popleft()
        self._bytes -= len(text)
        return text

    def close(self) -> None:
        self.closed = True
        self._news.set()
