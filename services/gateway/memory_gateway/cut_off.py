"""Whose time is over when the server stops is told that, and not that the server failed."""

import asyncio

from memory_gateway.asgi import FAILED, App, Message, Receive, Scope, Send, refuse

STOPPING = "The server has stopped before this was answered; whether a write landed is unknown."


class CutOff:
    """uvicorn cancels what is left at the end of its grace, and says 500 for it: a fault, which
    clients do not try again."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def noting(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, noting)
        except asyncio.CancelledError:
            if begun or scope["type"] != "http":
                raise
            await refuse(scope, send, 503, FAILED, STOPPING)
