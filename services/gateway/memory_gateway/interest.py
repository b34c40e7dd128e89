"""What a subscriber wants to hear of, and what it has still to be told."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator

from mcp.server.subscriptions import ResourcesListChanged, ResourceUpdated
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from memory_gateway.live import Change, News
from memory_gateway.principals import Principal
from memory_gateway.resources import parse_uri
from memory_store.contract import NotFound

MOST_URIS = 1_000
TOO_MANY_URIS = f"One subscriber may subscribe to {MOST_URIS} resources at most."

Notice = ResourceUpdated | ResourcesListChanged
Place = tuple[str, str]
"""Namespace and key."""


class Interest:
    """What one subscriber wants to hear of, within its principal's reach."""

    def __init__(self, principal: Principal, *, lists: bool) -> None:
        self.principal = principal
        self._lists = lists
        self._uris: dict[str, Place] = {}
        self._at: defaultdict[Place, set[str]] = defaultdict(set)

    @property
    def uris(self) -> list[str]:
        return list(self._uris)

    def add(self, uri: str) -> None:
        """Raises `Forbidden`, and `MCPError` for one too many. What is no fact's URI never changes.

        The notices name the URI as it is given here, however its key is escaped.
        """
        if len(self._uris) >= MOST_URIS and uri not in self._uris:
            raise MCPError(INVALID_PARAMS, TOO_MANY_URIS)
        try:
            place = parse_uri(uri)
        except NotFound:
            place = ("", uri)
        else:
            self.principal.require("read", place[0])
        self._uris[uri] = place
        self._at[place].add(uri)

    def discard(self, uri: str) -> None:
        place = self._uris.pop(uri, None)
        if place is not None:
            self._at[place].discard(uri)
            if not self._at[place]:
                del self._at[place]

    def all(self) -> Iterator[Notice]:
        """What to tell whoever may have missed something."""
        yield from map(ResourceUpdated, self._uris)
        if self._lists:
            yield ResourcesListChanged()

    def notices(self, change: Change) -> Iterator[Notice]:
        yield from map(ResourceUpdated, self._changed(change))
        if self._lists and change.listed and any(map(self._reads, change.namespaces)):
            yield ResourcesListChanged()

    def _changed(self, change: Change) -> Iterator[str]:
        if change.key is not None:
            yield from self._at.get((change.namespaces[0], change.key), ())
            return
        for uri, (namespace, _) in self._uris.items():
            if namespace in change.namespaces:
                yield uri

    def _reads(self, namespace: str) -> bool:
        return "read" in self.principal.scopes and self.principal.reaches(namespace)


class Notices:
    """What a subscriber has still to be told: each notice once, in the order of the first time."""

    def __init__(self, interest: Interest) -> None:
        self._interest = interest
        self._waiting: dict[Notice, None] = {}
        self._ready = asyncio.Event()
        self._closed = False

    @property
    def principal(self) -> Principal:
        """Who is told."""
        return self._interest.principal

    def hear(self, news: News) -> None:
        if news.change is not None:
            self.put(self._interest.notices(news.change))

    def put(self, notices: Iterator[Notice]) -> None:
        self._waiting.update(dict.fromkeys(notices))
        if self._waiting:
            self._ready.set()

    def close(self) -> None:
        self._closed = True
        self._ready.set()

    async def take(self) -> Notice | None:
        """Waits for a notice; None means that none will come any more."""
        while not self._waiting:
            if self._closed:
                return None
            self._ready.clear()
            await self._ready.wait()
        notice = next(iter(self._waiting))
        del self._waiting[notice]
        return notice
