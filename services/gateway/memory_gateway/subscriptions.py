"""What MCP clients have subscribed to: streams of the newer protocol, sessions of the older one.

Both hear that something is another than before, not what it is. So whatever happens while a
client does not read is told to it once: what waits is never more than it subscribed to.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import anyio
from mcp.server.connection import Connection
from mcp.server.subscriptions import (
    SUBSCRIPTION_ID_META_KEY,
    ResourcesListChanged,
    ResourceUpdated,
)
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import event_to_notification
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    EmptyResult,
    NotificationParams,
    SubscribeRequestParams,
    SubscriptionFilter,
    SubscriptionsAcknowledgedNotification,
    SubscriptionsAcknowledgedNotificationParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    UnsubscribeRequestParams,
)

from memory_gateway.calls import RequestContext
from memory_gateway.live import Change, News, Trail
from memory_gateway.principals import Principal, principal_of
from memory_gateway.resources import parse_uri
from memory_store.contract import Forbidden, NotFound

MOST_STREAMS = 1_024
MOST_URIS = 1_000
STALLED_SECONDS = 5.0
TOO_MANY_STREAMS = f"The server has {MOST_STREAMS} such streams open, which is the most."
TOO_MANY_URIS = f"One subscriber may subscribe to {MOST_URIS} resources at most."
STALLED = (
    f"The stream is ended because its client has read nothing for {STALLED_SECONDS:g} seconds."
    " Listen again and read anew what was subscribed to."
)

Notice = ResourceUpdated | ResourcesListChanged
Place = tuple[str, str]
"""Namespace and key."""


class Interest:
    """What one subscriber wants to hear of, within its principal's reach."""

    def __init__(self, principal: Principal, *, lists: bool) -> None:
        self._principal = principal
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
            self._principal.require("read", place[0])
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
        return "read" in self._principal.scopes and self._principal.reaches(namespace)


class Notices:
    """What a subscriber has still to be told: each notice once, in the order of the first time."""

    def __init__(self, interest: Interest) -> None:
        self._interest = interest
        self._waiting: dict[Notice, None] = {}
        self._ready = asyncio.Event()
        self._closed = False

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


class ListenStreams:
    """Answers `subscriptions/listen`: each call is a stream of notices, until its client goes."""

    def __init__(self, trail: Trail) -> None:
        self._trail = trail
        self._open: set[Notices] = set()
        self.dropped = 0

    @property
    def count(self) -> int:
        return len(self._open)

    def close(self) -> None:
        """Ends all streams in order, after what still waits in them."""
        for notices in self._open:
            notices.close()

    async def __call__(
        self, context: RequestContext, params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        if len(self._open) >= MOST_STREAMS:
            raise MCPError(INTERNAL_ERROR, TOO_MANY_STREAMS)
        interest, honored = _granted(principal_of(context.request), params.notifications)
        notices = Notices(interest)
        self._open.add(notices)
        try:
            await self._trail.add(notices.hear)
            await _tell(context, honored, notices)
        except TimeoutError:
            self.dropped += 1
            raise MCPError(INTERNAL_ERROR, STALLED) from None
        finally:
            self._trail.discard(notices.hear)
            self._open.discard(notices)
        return SubscriptionsListenResult(_meta=_meta(context))


def _meta(context: RequestContext) -> dict[str, object]:
    return {SUBSCRIPTION_ID_META_KEY: context.request_id}


async def _tell(context: RequestContext, honored: SubscriptionFilter, notices: Notices) -> None:
    """Raises `TimeoutError` when the client does not read."""
    session, number, meta = context.session, context.request_id, _meta(context)
    acknowledged = SubscriptionsAcknowledgedNotificationParams(notifications=honored, _meta=meta)
    await session.send_notification(
        SubscriptionsAcknowledgedNotification(params=acknowledged), number
    )
    while (notice := await notices.take()) is not None:
        with anyio.fail_after(STALLED_SECONDS):
            await session.send_notification(event_to_notification(notice, meta), number)


def _granted(
    principal: Principal, wanted: SubscriptionFilter
) -> tuple[Interest, SubscriptionFilter]:
    """What the client will hear of: URIs out of its reach are left out, and nothing said of them.

    There is nothing to hear of tools and prompts, which never change while a server runs.
    """
    lists = bool(wanted.resources_list_changed)
    interest = Interest(principal, lists=lists)
    for uri in wanted.resource_subscriptions or ():
        try:
            interest.add(uri)
        except Forbidden:
            continue
    return interest, SubscriptionFilter(
        tools_list_changed=wanted.tools_list_changed or None,
        prompts_list_changed=wanted.prompts_list_changed or None,
        resources_list_changed=lists or None,
        resource_subscriptions=interest.uris or None,
    )


@dataclass
class _Session:
    """A session and what it has subscribed to. While awake it is told of changes."""

    connection: Connection
    interest: Interest
    notices: Notices = field(init=False)
    telling: asyncio.Task[None] | None = None
    was_awake: bool = False

    def __post_init__(self) -> None:
        self.notices = Notices(self.interest)

    async def tell(self) -> None:
        while (notice := await self.notices.take()) is not None:
            match notice:
                case ResourceUpdated(uri):
                    await self.connection.send_resource_updated(uri)
                case _:
                    await self.connection.send_resource_list_changed()


class SessionSubscriptions:
    """Subscriptions of sessions that began with a handshake, on whatever transport.

    Over streamable HTTP a session is told of changes while it has its GET stream open. When
    it opens one again it is told that all it subscribed to may have changed.
    """

    def __init__(self, trail: Trail) -> None:
        self._trail = trail
        self._sessions: dict[Connection, _Session] = {}
        self._streams: Counter[str] = Counter()

    @property
    def counts(self) -> Mapping[str, int]:
        """Sessions that are told of changes now, and the resources that they subscribed to.

        May be asked on any thread.
        """
        awake = [session for session in list(self._sessions.values()) if session.telling]
        uris = sum(len(session.interest.uris) for session in awake)
        return {"sessions": len(awake), "resources": uris}

    async def introduce(self, context: RequestContext, _params: NotificationParams | None) -> None:
        """A client that is initialised hears when the list of facts changes."""
        await self._session(context)

    async def subscribe(
        self, context: RequestContext, params: SubscribeRequestParams
    ) -> EmptyResult:
        session = await self._session(context)
        try:
            session.interest.add(str(params.uri))
        except Forbidden as error:
            raise MCPError(INVALID_PARAMS, error.message, {"uri": str(params.uri)}) from error
        return EmptyResult()

    async def unsubscribe(
        self, context: RequestContext, params: UnsubscribeRequestParams
    ) -> EmptyResult:
        session = await self._session(context)
        session.interest.discard(str(params.uri))
        return EmptyResult()

    async def stream_opened(self, session_id: str) -> None:
        """Returns when what is written from now on is heard of."""
        self._streams[session_id] += 1
        if self._streams[session_id] == 1:
            for session in self._named(session_id):
                await self._wake(session)

    def stream_closed(self, session_id: str) -> None:
        self._streams[session_id] -= 1
        if not self._streams[session_id]:
            del self._streams[session_id]
            for session in self._named(session_id):
                self._lull(session)

    async def _session(self, context: RequestContext) -> _Session:
        connection = _connection(context)
        session = self._sessions.get(connection)
        if session is None:
            interest = Interest(principal_of(context.request), lists=True)
            session = self._sessions[connection] = _Session(connection, interest)
            connection.exit_stack.callback(self._forget, session)
            if connection.session_id is None or connection.session_id in self._streams:
                await self._wake(session)
        return session

    def _named(self, session_id: str) -> list[_Session]:
        return [it for it in self._sessions.values() if it.connection.session_id == session_id]

    async def _wake(self, session: _Session) -> None:
        if session.was_awake:
            session.notices.put(session.interest.all())
        session.was_awake = True
        session.telling = asyncio.create_task(session.tell(), name="notices")
        await self._trail.add(session.notices.hear)

    def _lull(self, session: _Session) -> None:
        self._trail.discard(session.notices.hear)
        if session.telling:
            session.telling.cancel()
            session.telling = None

    def _forget(self, session: _Session) -> None:
        self._lull(session)
        del self._sessions[session.connection]


def _connection(context: RequestContext) -> Connection:
    """The session itself: what a handler is given is made anew for each request."""
    return context.session._connection  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  the SDK has no other way to it
