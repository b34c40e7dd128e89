"""Requests and streams under way, ended soon when their token is good no more."""

import asyncio
import logging
from collections import defaultdict

import anyio

from memory_gateway.asgi import App, Message, Receive, Scope, Send
from memory_gateway.challenge import refuse_token
from memory_gateway.principals import PRINCIPAL, Principal
from memory_gateway.tokens import Proof, Verifier
from memory_store.contract import StoreError

logger = logging.getLogger(__name__)

EVERY_SECONDS = 0.5
GRACE_SECONDS = 0.5
"""How long a request has that is told that its client has gone, before it is cancelled."""
FAREWELL_SECONDS = 0.5
"""How long a client that does not read is waited for."""
OVER = "The bearer token is not valid any more."
POLICY_VIOLATION = 1008


class Visits:
    """Serves requests that came with a token, and looks after them until they are over."""

    def __init__(self, app: App, verifier: Verifier) -> None:
        self._app = app
        self._verifier = verifier
        self._open: defaultdict[Proof, set[_Visit]] = defaultdict(set)

    async def serve(self, proof: Proof, scope: Scope, receive: Receive, send: Send) -> None:
        visit = _Visit(scope, receive, send)
        self._open[proof].add(visit)
        try:
            await visit.serve(self._app)
        finally:
            self._open[proof].discard(visit)
            if not self._open[proof]:
                del self._open[proof]

    async def watch(self) -> None:
        """Never returns: looks after what is under way until it is cancelled."""
        while True:
            await anyio.sleep(EVERY_SECONDS)
            await asyncio.gather(*map(self._look_after, list(self._open)))

    async def _look_after(self, proof: Proof) -> None:
        try:
            principal = await self._verifier.verify(proof)
        except StoreError:
            return  # nothing comes from a store that cannot be asked; its next answer decides
        for visit in list(self._open.get(proof, ())):
            if visit.principal != principal:
                logger.info("a request of %s is ended with its token", visit.principal.name)
                visit.end()


class _Visit:
    """One request. When it is ended the application hears that its client has gone, and what it
    still says is not passed on; if that does not end it, it is cancelled."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.principal: Principal = scope[PRINCIPAL]
        self._scope = scope
        self._receive = receive
        self._send = send
        self._whole = anyio.CancelScope()
        self._waiting: set[anyio.CancelScope] = set()
        self._ended = False
        self._begun: Message | None = None
        self._complete = False

    async def serve(self, app: App) -> None:
        try:
            with self._whole:
                await app(self._scope, self.receive, self.send)
        except Exception:
            if not self._ended:
                raise
            logger.debug("a request that was ended failed", exc_info=True)
        if self._ended:
            with anyio.move_on_after(FAREWELL_SECONDS):
                await self._part()

    def end(self) -> None:
        if self._ended:
            return
        self._ended = True
        for waiting in self._waiting:
            waiting.cancel()
        asyncio.get_running_loop().call_later(GRACE_SECONDS, self._whole.cancel)

    async def receive(self) -> Message:
        if not self._ended:
            with anyio.CancelScope() as waiting:
                self._waiting.add(waiting)
                try:
                    return await self._receive()
                finally:
                    self._waiting.discard(waiting)
        return _gone(self._scope)

    async def send(self, message: Message) -> None:
        if self._ended:
            return
        kind = message["type"]
        if kind == "websocket.accept" or kind.endswith("response.start"):
            self._begun = message
        elif kind == "websocket.close" or kind.endswith("response.body"):
            self._complete = not message.get("more_body", False)
        await self._send(message)

    async def _part(self) -> None:
        """Completes what was begun, or says why it did not begin."""
        if self._complete:
            return
        if self._begun is None:
            await refuse_token(self._scope, self._send, OVER)
        elif self._begun["type"] == "websocket.accept":
            close = {"type": "websocket.close", "code": POLICY_VIOLATION, "reason": OVER}
            await self._send(close)
        elif not any(name == b"content-length" for name, _ in self._begun.get("headers", ())):
            await self._send({"type": "http.response.body", "body": b""})


def _gone(scope: Scope) -> Message:
    if scope["type"] == "websocket":
        return {"type": "websocket.disconnect", "code": POLICY_VIOLATION, "reason": OVER}
    return {"type": "http.disconnect"}
