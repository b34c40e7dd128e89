"""Streams that nobody would otherwise end, ended in order when the server stops."""

import asyncio
import logging
from typing import Protocol

import anyio

from memory_gateway.asgi import EVENT_STREAM, App, Message, Receive, Scope, Send, header
from memory_gateway.sessions import SESSION_ID

logger = logging.getLogger(__name__)

OK = 200
STALLED_SECONDS = 2.0
"""A session answers its requests no sooner than its GET stream takes what comes before them."""


class SessionStreams(Protocol):
    """Who wants to know which sessions have their GET stream open."""

    async def stream_opened(self, session_id: str) -> None: ...

    def stream_closed(self, session_id: str) -> None: ...


class StandingStreams:
    """Lets GET streams be ended: they carry what the server says by itself, and wait for ever.

    One that its client does not read is ended for its session's sake, and so is one whose client
    opens it anew: it has lost the one before, even if nobody has noticed that yet.
    """

    def __init__(self, app: App, sessions: SessionStreams) -> None:
        self._app = app
        self._sessions = sessions
        self._open: set[_Stream] = set()
        self._closed = False
        self.dropped = 0

    @property
    def count(self) -> int:
        return len(self._open)

    def close(self) -> None:
        """Ends every stream as if its client had gone, and lets none be opened any more."""
        self._closed = True
        for stream in self._open:
            stream.end()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        stream = _Stream(scope, receive, send, self._sessions)
        if EVENT_STREAM in (header(scope, b"accept") or b""):
            await self._end_before(stream)
        self._open.add(stream)
        if self._closed:
            stream.end()
        try:
            await self._app(scope, stream.receive, stream.send)
        finally:
            stream.tell_closed()
            self._open.discard(stream)
            self.dropped += stream.stalled
            stream.over.set()
        await stream.finish()

    async def _end_before(self, new: "_Stream") -> None:
        for stream in [it for it in self._open if it.session == new.session]:
            stream.end()
            with anyio.move_on_after(STALLED_SECONDS):
                await stream.over.wait()


class _Stream:
    """Receives from the client until the stream is to end: then its disconnection. Sends what the
    application sends, and the end of the response if it has left that out."""

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, sessions: SessionStreams
    ) -> None:
        self.session = (header(scope, SESSION_ID) or b"").decode("latin-1")
        self._receive = receive
        self._send = send
        self._sessions = sessions
        self._ending: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.over = asyncio.Event()
        self._told_open = False
        self._incomplete = False
        self.stalled = False

    def end(self) -> None:
        if not self._ending.done():
            self._ending.set_result(None)

    async def receive(self) -> Message:
        received = asyncio.ensure_future(self._receive())
        try:
            await asyncio.wait((received, self._ending), return_when=asyncio.FIRST_COMPLETED)
            return {"type": "http.disconnect"} if self._ending.done() else received.result()
        finally:
            received.cancel()

    async def send(self, message: Message) -> None:
        begins = message["type"] == "http.response.start"
        self._incomplete = begins or message.get("more_body", False)
        if begins and message["status"] == OK and self.session:
            self._told_open = True
            await self._sessions.stream_opened(self.session)
        with anyio.move_on_after(STALLED_SECONDS) as sending:
            await self._send(message)
        if sending.cancelled_caught:
            await self._stall()

    async def _stall(self) -> None:
        logger.warning(
            "the GET stream of a session is ended: its client has read nothing for %g seconds",
            STALLED_SECONDS,
        )
        self.stalled = True
        self.end()
        await anyio.sleep_forever()  # until the application, told that the client is gone, ends

    def tell_closed(self) -> None:
        if self._told_open:
            self._sessions.stream_closed(self.session)

    async def finish(self) -> None:
        if self._incomplete:
            await self._send({"type": "http.response.body", "body": b""})
