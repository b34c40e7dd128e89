"""What MCP clients have subscribed to: streams of the newer protocol, sessions of the older one.

Both hear that something is another than before, not what it is. So whatever happens while a
client does not read is told to it once: what waits is never more than it subscribed to.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import anyio
from mcp.server.connection import Connection
from mcp.server.subscriptions import SUBSCRIPTION_ID_META_KEY, ResourceUpdated
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
from memory_gateway.interest import Interest, Notices
from memory_gateway.live import Trail
from memory_gateway.principals import Principal, principal_of
from memory_store.contract import Forbidden

MOST_STREAMS = 1_024
MOST_OF_ONE = MOST_STREAMS // 4
"""So that no one client can have them all: a WebSocket carries many."""
STALLED_SECONDS = 5.0
TOO_MANY_STREAMS = f"The server has {MOST_STREAMS} such streams open, which is the most."
TOO_MANY_OF_ONE = f"This token has {MOST_OF_ONE} such streams open, which is the most."
STALLED = (
    f"The stream is ended because its client has read nothing for {STALLED_SECONDS:g} seconds."
    " Listen again and read anew what was subscribed to."
)


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
        principal = principal_of(context.request)
        self._make_sure_of_room(principal)
        interest, honored = _granted(principal, params.notifications)
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

    def _make_sure_of_room(self, principal: Principal) -> None:
        """Raises `MCPError`."""
        if len(self._open) >= MOST_STREAMS:
            raise MCPError(INTERNAL_ERROR, TOO_MANY_STREAMS)
        if sum(it.principal.name == principal.name for it in self._open) >= MOST_OF_ONE:
            raise MCPError(INTERNAL_ERROR, TOO_MANY_OF_ONE)


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
        else:
            await self._trail.begun()

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
        elif session.telling:
            await self._trail.begun()
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
