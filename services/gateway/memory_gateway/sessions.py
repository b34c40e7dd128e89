"""The sessions of clients that begin with a handshake, bounded."""

from collections import Counter

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

NOT_FOUND = 404
SESSION_ID = b"mcp-session-id"
FULL = "All sessions that the server may have are in use: try again later (MCP_MAX_SESSIONS)."
RETRY = [(b"retry-after", b"30")]


class Sessions:
    """Keeps up to `most` sessions. For one more, that which was idle for longest is ended: its
    client is told so and begins anew, while clients that are turned away could do nothing.

    A session is in use while a request or a stream of it is under way.
    """

    def __init__(self, app: App, most: int) -> None:
        self._app = app
        self._most = most
        self._idle: dict[bytes, None] = {}  # those idle for longest first
        self._used: Counter[bytes] = Counter()
        self._opening = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif session := header(scope, SESSION_ID):
            await self._use(session, scope, receive, send)
        elif scope.get(METHOD) != "initialize":
            await self._app(scope, receive, send)
        elif await self._has_room(scope):
            await self._open(scope, receive, send)
        else:
            await refuse(scope, send, 503, FAILED, FULL, RETRY)

    async def _use(self, session: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        known = session in self._idle or session in self._used
        self._hold(session)
        ended = scope["method"] == "DELETE"

        async def watch(message: Message) -> None:
            nonlocal ended
            ended = ended or message.get("status") == NOT_FOUND
            await send(message)

        try:
            await self._app(scope, receive, watch)
        finally:
            self._release(session, kept=known and not ended)

    async def _open(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._opening += 1
        session: bytes | None = None

        async def watch(message: Message) -> None:
            nonlocal session
            if message["type"] == "http.response.start" and message["status"] < FIRST_ERROR:
                session = header(message, SESSION_ID)
                if session:
                    self._hold(session)  # before its client knows of it and uses it
                    self._opening -= 1
            await send(message)

        try:
            await self._app(scope, receive, watch)
        finally:
            if session:
                self._release(session, kept=True)
            else:
                self._opening -= 1

    def _hold(self, session: bytes) -> None:
        self._idle.pop(session, None)
        self._used[session] += 1

    def _release(self, session: bytes, *, kept: bool) -> None:
        self._used[session] -= 1
        if not self._used[session]:
            del self._used[session]
            if kept:
                self._idle[session] = None

    async def _has_room(self, scope: Scope) -> bool:
        if len(self._idle) + len(self._used) + self._opening < self._most:
            return True
        if not self._idle:
            return False
        longest = next(iter(self._idle))
        del self._idle[longest]
        ending = {**scope, "method": "DELETE", "headers": [(SESSION_ID, longest)]}
        await self._app(ending, _receive_nothing, _send_nothing)
        return True


async def _receive_nothing() -> Message:
    return {"type": "http.request", "body": b""}


async def _send_nothing(_message: Message) -> None: ...
