"""MCP over a WebSocket: a JSON-RPC message a frame, in both eras of the protocol."""

from contextlib import suppress

import anyio
from starlette.requests import HTTPConnection

from memory_gateway.asgi import REFUSED, Message, Receive, Scope, Send, refuse
from memory_gateway.bounds.rates import Rates
from memory_gateway.frames import parse
from memory_gateway.principals import PRINCIPAL, Principal
from memory_gateway.sessions import Sessions
from memory_gateway.transports.duplex import GONE, Duplex, Duplexes

SUBPROTOCOL = "mcp"
UPGRADE = "This address is for WebSockets; streamable HTTP is served at /mcp."
RESTART = 1012
STOPPING = "The server is stopping."


class WebSockets:
    """Serves WebSockets. Who is there was proved before, and the size of a message is bounded by
    the server below."""

    def __init__(self, duplexes: Duplexes, sessions: Sessions, rates: Rates) -> None:
        self._duplexes = duplexes
        self._rates = rates
        self._as_session = sessions.standing(self._converse)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._as_session(scope, receive, send)
        else:
            await refuse(scope, send, 426, REFUSED, UPGRADE, [(b"upgrade", b"websocket")])

    async def _converse(self, scope: Scope, receive: Receive, send: Send) -> None:
        principal: Principal = scope[PRINCIPAL]

        async def receive_in_turn() -> Message:
            """A message is read no sooner than the rate of its principal allows."""
            missing = await self._rates.take(principal.name)
            while missing:
                await anyio.sleep(missing)
                missing = await self._rates.take(principal.name)
            return await receive()

        with self._duplexes.one_more() as duplex:
            await _serve(duplex, scope, receive_in_turn, send)


async def _serve(duplex: Duplex, scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    chosen = SUBPROTOCOL if SUBPROTOCOL in scope["subprotocols"] else None
    await send({"type": "websocket.accept", "subprotocol": chosen})
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(duplex.run)
        tasks.start_soon(_take_all, duplex, scope, receive, tasks.cancel_scope)
        await _send_all(duplex, send)
        tasks.cancel_scope.cancel()
    with suppress(OSError):  # the client is gone
        await send({"type": "websocket.close", "code": RESTART, "reason": STOPPING})


async def _take_all(
    duplex: Duplex, scope: Scope, receive: Receive, whole: anyio.CancelScope
) -> None:
    request = HTTPConnection(scope)
    while (event := await receive())["type"] == "websocket.receive":
        text: bytes = event.get("bytes") or (event.get("text") or "").encode()
        with suppress(*GONE):
            await duplex.take(parse(text), request)
    whole.cancel()


async def _send_all(duplex: Duplex, send: Send) -> None:
    with suppress(OSError):  # the client is gone
        while (text := await duplex.next_outgoing()) is not None:
            await send({"type": "websocket.send", "text": text})
