"""Following the trail: what came after an event, or the wait for it."""

import threading
import time

from memory_store import events
from memory_store.contract import EventFeed, Unavailable
from memory_store.engine import Engine

CLOSING_SECONDS = 0.25
"""How long somebody who waits goes on after the store has begun to close."""


class Follower:
    """Asks for the events of a namespace, or of all, until the store is `closing`."""

    def __init__(
        self,
        engine: Engine,
        closing: threading.Event,
        namespace: str | None,
        limit: int,
        *,
        include_reads: bool,
    ) -> None:
        self._engine = engine
        self._closing = closing
        self._namespace = namespace
        self._limit = limit
        self._include_reads = include_reads

    def feed(self, after: int, wait_seconds: float) -> EventFeed:
        """Returns as soon as there is an event to tell, or empty when the time is over.

        Raises `Unavailable` instead of waiting when the store is closing.
        """
        deadline = time.monotonic() + wait_seconds
        feed = self._look(after)
        # Events that were not asked for are not looked at again.
        while not feed.events and self._is_news(feed.after, deadline):
            feed = self._look(feed.after)
        return feed

    def _is_news(self, after: int, deadline: float) -> bool:
        """Waits for an event, asked for or not; False when the time is over."""
        while (left := deadline - time.monotonic()) > 0:
            if self._closing.is_set():
                raise Unavailable("the store is closing; follow again in a moment")
            if self._engine.wait_for_writes(after, min(left, CLOSING_SECONDS)):
                return True
        return False

    def _look(self, after: int) -> EventFeed:
        with self._engine.read() as session:
            settled = self._engine.last_settled_event(session)
            return events.feed(
                session,
                after,
                settled,
                self._namespace,
                self._limit,
                include_reads=self._include_reads,
            )
