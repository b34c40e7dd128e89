"""Following the trail: one follower for all in this process who want to hear of changes."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial

from memory_gateway.threads import DaemonThreads
from memory_store.contract import Event, EventFeed, Store, StoreError

logger = logging.getLogger(__name__)

AT_ONCE = 100
WAIT_SECONDS = 20.0
"""How long the store may keep a question before it answers that nothing happened."""
BEGIN_SECONDS = 2.0
"""How long whoever begins to listen waits for a store that does not answer."""
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0

WRITES = frozenset({"set", "restore", "import"})
REMOVALS = frozenset({"delete", "expire"})


@dataclass(frozen=True)
class Change:
    """Which facts an event has changed: one, or with `key` None all of the namespaces.

    `listed` says that there are now other facts than before, not only other values.
    """

    namespaces: tuple[str, ...]
    key: str | None
    listed: bool


class News:
    """An event on its way to those who listen. What they share is made once."""

    def __init__(self, event: Event) -> None:
        self.event = event

    @cached_property
    def change(self) -> Change | None:
        """What of the facts is another now; None for reads, refusals and administration."""
        return _change(self.event)

    @cached_property
    def frame(self) -> bytes:
        """The event as a server-sent one."""
        return f"id: {self.event.id}\ndata: {self.event.model_dump_json()}\n\n".encode()


def _change(event: Event) -> Change | None:
    if event.namespace is None:
        return None
    if event.kind == "rename":
        return Change((str(event.detail["from"]), event.namespace), None, listed=True)
    if event.kind in WRITES:
        return Change((event.namespace,), event.key, listed=event.value_before is None)
    if event.kind in REMOVALS:
        return Change((event.namespace,), event.key, listed=True)
    return None


Listener = Callable[[News], None]
"""Called on the event loop, once an event; must return at once and not raise."""


class Trail:
    """The trail as it grows, whichever process writes it. It is followed while anybody listens.

    A store that fails is asked again, from the event at which it failed: nothing is missed.
    Used on one event loop only.
    """

    def __init__(self, store: Store, *, include_reads: bool = False) -> None:
        self._store = store
        self._include_reads = include_reads
        self._listeners: dict[Listener, None] = {}
        self._thread = DaemonThreads("follower", 1)
        self._following: asyncio.Task[None] | None = None
        self._begun = asyncio.Event()
        self._failing = False
        self.position: int | None = None
        """The event up to which all was told; None while nobody follows."""

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    async def add(self, listener: Listener) -> None:
        """Returns when the listener hears of all that happens from now on.

        With a store that does not answer it hears of all that happens once that does.
        """
        self._listeners[listener] = None
        if self._following is None:
            self._begun.clear()
            self._following = asyncio.create_task(self._follow(), name="follower")
        await self.begun()

    async def begun(self) -> None:
        """Waits as `add` does, for a listener that somebody else is adding meanwhile."""
        if self._following is None:
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(self._begun.wait(), BEGIN_SECONDS)

    def discard(self, listener: Listener) -> None:
        self._listeners.pop(listener, None)

    async def _follow(self) -> None:
        pause = FIRST_PAUSE
        try:
            while self._listeners:
                feed = await self._ask()
                if feed is None:
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, LONGEST_PAUSE)
                else:
                    pause = FIRST_PAUSE
                    await self._tell(feed)
        finally:
            self._following = self.position = None

    async def _ask(self) -> EventFeed | None:
        """Returns None when the store failed."""
        try:
            feed = await self._thread.run(partial(self._look, self.position))
        except StoreError as error:
            self._note_failure(error.message)
        except Exception:
            logger.exception("following the trail failed")
            self._note_failure("an unforeseen error")
        else:
            self._note_answer()
            return feed
        return None

    def _look(self, after: int | None) -> EventFeed:
        if self._failing and after is not None:
            # What was put back to a backup meanwhile goes on with lower numbers.
            after = min(after, self._store.event_follow(None).after)
        return self._store.event_follow(
            after, None, AT_ONCE, WAIT_SECONDS, include_reads=self._include_reads
        )

    async def _tell(self, feed: EventFeed) -> None:
        for event in feed.events:
            news = News(event)
            for listener in tuple(self._listeners):
                listener(news)
            self.position = event.id
            await asyncio.sleep(0)  # those who were told may write in between
        self.position = feed.after
        self._begun.set()

    def _note_failure(self, reason: str) -> None:
        if not self._failing:
            logger.warning("changes cannot be followed for now: %s", reason)
        self._failing = True

    def _note_answer(self) -> None:
        if self._failing:
            logger.info("changes are followed again")
        self._failing = False


class Live:
    """The two trails of a process: nearly everybody follows the one without reads."""

    def __init__(self, store: Store) -> None:
        self.writes = Trail(store)
        self.everything = Trail(store, include_reads=True)

    def trail(self, *, include_reads: bool) -> Trail:
        return self.everything if include_reads else self.writes
