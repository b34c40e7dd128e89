"""The sessions of clients that begin with a handshake: bounded, and each its principal's own."""

import itertools
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from memory_gateway.asgi import (
    FAILED,
    FIRST_ERROR,
    METHOD,
    App,
    Message,
    Receive,
    Scope,
    Send,
    header,
    refuse,
)
from memory_gateway.principals import PRINCIPAL

NOT_FOUND = 404
SESSION_ID = b"mcp-session-id"
WITH_SESSIONS = frozenset(version.encode() for version in HANDSHAKE_PROTOCOL_VERSIONS)
NOBODYS = b"none"
KEPT_FREE = 10
"""One principal may have all sessions but one in so many, so that another always finds room."""
FULL = "All sessions that you may have are in use: try again later (MCP_MAX_SESSIONS)."
RETRY = [(b"retry-after", b"30")]


@dataclass
class _Holder:
    """A principal and its sessions: those in use, and those idle, which are numbered by when
    they became so and stand in that order. Those without an id are about to get one, or those of
    transports on which a session is a connection."""

    name: str
    used: Counter[bytes] = field(default_factory=Counter[bytes])
    idle: dict[bytes, int] = field(default_factory=dict[bytes, int])
    without_id: int = 0

    def __len__(self) -> int:
        return len(self.used) + len(self.idle) + self.without_id

    @property
    def longest_idle(self) -> bytes:
        return next(iter(self.idle))

    @property
    def weight(self) -> tuple[int, int]:
        """Who weighs most gives: who has the most sessions, then who left one idle for longest."""
        return len(self), -self.idle[self.longest_idle]


class Sessions:
    """Keeps up to `most` sessions. For one more an idle one is ended: its client is told so and
    begins anew, while clients that are turned away could do nothing. It is taken from whoever has
    the most, if that is more than who asks has, else from who asks: a flood ends only its own.

    A session is in use while a request or a stream of it is under way. For every principal but
    the one that opened it there is no such session.
    """

    def __init__(self, app: App, most: int) -> None:
        self._app = app
        self._most = most
        self._share = most - most // KEPT_FREE
        self._holders: dict[str, _Holder] = {}
        self._owners: dict[bytes, _Holder] = {}
        self._ticks = itertools.count()

    @property
    def count(self) -> int:
        return sum(map(len, self._holders.values()))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or _knows_no_sessions(scope):
            await self._app(scope, receive, send)
        elif header(scope, SESSION_ID) is not None:
            await self._use(scope, receive, send)
        elif scope.get(METHOD) == "initialize":
            await self._open(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _use(self, scope: Scope, receive: Receive, send: Send) -> None:
        session, *others = [value for name, value in scope["headers"] if name == SESSION_ID]
        holder = self._owners.get(session)
        if holder is None or holder.name != scope[PRINCIPAL].name or others:
            await self._app(_with_session(scope, NOBODYS), receive, send)
            return

        async def watch(message: Message) -> None:
            if _is_the_end(scope, message):
                self._owners.pop(session, None)
            await send(message)

        self._hold(holder, session)
        try:
            await self._app(scope, receive, watch)
        finally:
            self._release(holder, session)

    async def _open(self, scope: Scope, receive: Receive, send: Send) -> None:
        holder = await self._admit(scope, send)
        if holder is None:
            return
        session: bytes | None = None

        async def watch(message: Message) -> None:
            nonlocal session
            if message["type"] == "http.response.start" and message["status"] < FIRST_ERROR:
                session = header(message, SESSION_ID)
                if session:  # before its client knows of it and uses it
                    self._owners[session] = holder
                    self._hold(holder, session)
                    holder.without_id -= 1
            await send(message)

        try:
            await self._app(scope, receive, watch)
        finally:
            if session:
                self._release(holder, session)
            else:
                self._leave(holder)

    def standing(self, app: App) -> App:
        """Serves connections of other transports, each of which is a session in use."""

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            holder = await self._admit(scope, send)
            if holder is not None:
                try:
                    await app(scope, receive, send)
                finally:
                    self._leave(holder)

        return serve

    async def _admit(self, scope: Scope, send: Send) -> _Holder | None:
        """Returns whose session the new one is, which counts from now on; None if refused."""
        name: str = scope[PRINCIPAL].name
        holder = self._holders.setdefault(name, _Holder(name))
        giver = self._giver(holder)
        if giver and not giver.idle:
            await refuse(scope, send, 503, FAILED, FULL, RETRY)
            return None
        holder.without_id += 1
        try:
            if giver:
                await self._end(giver, scope)
        except BaseException:
            self._leave(holder)
            raise
        return holder

    def _leave(self, holder: _Holder) -> None:
        holder.without_id -= 1
        self._forget_empty(holder)

    def _giver(self, asking: _Holder) -> _Holder | None:
        """Whose session makes room for one more, or would if it had an idle one; None if there
        is room."""
        if len(asking) >= self._share:
            return asking
        if sum(map(len, self._holders.values())) < self._most:
            return None
        larger = (it for it in self._holders.values() if it.idle and len(it) > len(asking))
        return max(larger, key=lambda it: it.weight, default=asking)

    async def _end(self, holder: _Holder, scope: Scope) -> None:
        session = holder.longest_idle
        del holder.idle[session], self._owners[session]
        self._forget_empty(holder)
        ending = {**scope, "type": "http", "method": "DELETE", "headers": [(SESSION_ID, session)]}
        await self._app(ending, _receive_nothing, _send_nothing)

    def _hold(self, holder: _Holder, session: bytes) -> None:
        holder.idle.pop(session, None)
        holder.used[session] += 1

    def _release(self, holder: _Holder, session: bytes) -> None:
        holder.used[session] -= 1
        if holder.used[session]:
            return
        del holder.used[session]
        if session in self._owners:
            holder.idle[session] = next(self._ticks)
        self._forget_empty(holder)

    def _forget_empty(self, holder: _Holder) -> None:
        if not len(holder):
            self._holders.pop(holder.name, None)


def _with_session(scope: Scope, session: bytes) -> Scope:
    others: Iterable[tuple[bytes, bytes]] = (it for it in scope["headers"] if it[0] != SESSION_ID)
    return {**scope, "headers": [*others, (SESSION_ID, session)]}


def _knows_no_sessions(scope: Scope) -> bool:
    version = header(scope, b"mcp-protocol-version")
    return version is not None and version not in WITH_SESSIONS


def _is_the_end(scope: Scope, message: Message) -> bool:
    status: int | None = message.get("status")
    if status is None:
        return False
    return status == NOT_FOUND or (scope["method"] == "DELETE" and status < FIRST_ERROR)


async def _receive_nothing() -> Message:
    return {"type": "http.request", "body": b""}


async def _send_nothing(_message: Message) -> None: ...
