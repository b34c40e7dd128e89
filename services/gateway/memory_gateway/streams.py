"""Streams that nobody would otherwise end, ended in order when the server stops."""

import asyncio

from memory_gateway.asgi import App, Message, Receive, Scope, Send


class StandingStreams:
    """Lets GET streams be ended: they carry what the server says by itself, and wait for ever."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._open: set[asyncio.Future[None]] = set()
        self._closed = False

    @property
    def count(self) -> int:
        return len(self._open)

    def close(self) -> None:
        """Ends every stream as if its client had gone, and lets none be opened any more."""
        self._closed = True
        for ending in self._open:
            _settle(ending)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        ending = asyncio.get_running_loop().create_future()
        self._open.add(ending)
        if self._closed:
            _settle(ending)
        try:
            completed = _Completed(send)
            await self._app(scope, _Interrupted(receive, ending), completed)
            await completed.finish()
        finally:
            self._open.discard(ending)


def _settle(ending: asyncio.Future[None]) -> None:
    if not ending.done():
        ending.set_result(None)


class _Interrupted:
    """Receives what the client sends, until the stream is to end: then its disconnection."""

    def __init__(self, receive: Receive, ending: asyncio.Future[None]) -> None:
        self._receive = receive
        self._ending = ending

    async def __call__(self) -> Message:
        received = asyncio.ensure_future(self._receive())
        try:
            await asyncio.wait((received, self._ending), return_when=asyncio.FIRST_COMPLETED)
            return {"type": "http.disconnect"} if self._ending.done() else received.result()
        finally:
            received.cancel()


class _Completed:
    """Sends a response, and its end if the application has left that out."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._begun = False

    async def __call__(self, message: Message) -> None:
        self._begun = message["type"] == "http.response.start" or message.get("more_body", False)
        await self._send(message)

    async def finish(self) -> None:
        if self._begun:
            await self._send({"type": "http.response.body", "body": b""})
