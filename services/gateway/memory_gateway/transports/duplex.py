"""MCP with one client over a channel each way, whatever carries them."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import Any

import anyio
from anyio.abc import ObjectSendStream
from mcp.server.lowlevel import Server
from mcp.server.runner import serve_dual_era_loop
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import ErrorData, JSONRPCError, JSONRPCMessage, JSONRPCRequest, JSONRPCResponse
from starlette.requests import HTTPConnection

from memory_gateway.asgi import REFUSED
from memory_gateway.frames import Frame, Unreadable

MOST_UNDER_WAY = 256
MOST_WAITING = 16
TOO_MUCH = (
    f"{MOST_UNDER_WAY} requests of this connection are under way, which is the most: wait for"
    " answers before sending more."
)
IN_USE = "A request with this id is under way: each must have an id of its own."
GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError)
"""What is raised when a message comes too late for its connection."""


class Duplex(ObjectSendStream[SessionMessage]):
    """One connection: `run` serves it, `take` is given what the client says, and what is to be
    sent comes out of `next_outgoing`. It is the stream into which the SDK writes.

    While a client does not read, what is to be sent to it waits, a few messages here and the rest
    with who says it; its connection ends when the server below loses patience.
    """

    def __init__(self, server: Server[dict[str, Any]]) -> None:
        self._server = server
        self._incoming, self._from_client = anyio.create_memory_object_stream[
            SessionMessage | Exception
        ](0)
        self._to_client, self._from_server = anyio.create_memory_object_stream[str](MOST_WAITING)
        self._under_way: set[int | str] = set()
        self._settled = asyncio.Event()
        self._ending = asyncio.Event()

    def close(self) -> None:
        """Ends the connection in order: what was asked is answered first."""
        self._ending.set()

    async def run(self) -> None:
        """Returns when the connection is over; then nothing more goes out."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._end_in_order)
            await serve_dual_era_loop(
                self._server,
                self._from_client,
                self,
                lifespan_state={},
                init_options=self._server.create_initialization_options(),
            )
            tasks.cancel_scope.cancel()

    async def take(self, frame: Frame, request: HTTPConnection) -> None:
        """Takes what the client said in `request`. Raises one of `GONE`."""
        if self._ending.is_set():
            raise anyio.ClosedResourceError
        if isinstance(frame, Unreadable):
            await self._say(frame.answer)
        elif isinstance(frame, JSONRPCRequest) and (complaint := self._complaint(frame)):
            error = ErrorData(code=REFUSED, message=complaint)
            await self._say(JSONRPCError(jsonrpc="2.0", id=frame.id, error=error))
        else:
            await self._incoming.send(self._note(frame, request))

    def _complaint(self, request: JSONRPCRequest) -> str | None:
        if request.id in self._under_way:
            return IN_USE
        return TOO_MUCH if len(self._under_way) >= MOST_UNDER_WAY else None

    def _note(self, message: JSONRPCMessage, request: HTTPConnection) -> SessionMessage:
        metadata = ServerMessageMetadata(request_context=request)
        if isinstance(message, JSONRPCRequest):
            self._under_way.add(message.id)
            metadata.on_request_unanswered = partial(self._settle, message.id)
        return SessionMessage(message, metadata)

    async def _settle(self, number: int | str | None) -> None:
        if number is not None:
            self._under_way.discard(number)
        self._settled.set()

    async def _end_in_order(self) -> None:
        await self._ending.wait()
        while self._under_way:
            self._settled.clear()
            await self._settled.wait()
        self._incoming.close()

    async def send(self, item: SessionMessage) -> None:
        """Raises one of `GONE`."""
        await self._say(item.message)
        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            await self._settle(item.message.id)

    async def _say(self, message: JSONRPCMessage) -> None:
        await self._to_client.send(message.model_dump_json(by_alias=True, exclude_unset=True))

    async def aclose(self) -> None:
        self._to_client.close()

    async def next_outgoing(self) -> str | None:
        """Returns the next message to be sent, None after the last."""
        try:
            return await self._from_server.receive()
        except anyio.EndOfStream:
            return None

    def abandon(self) -> None:
        """Whoever still wants to say something learns that nobody hears it."""
        for end in (self._incoming, self._from_client, self._to_client, self._from_server):
            end.close()


class Duplexes:
    """The connections that are open, which end together when the server stops."""

    def __init__(self, server: Server[dict[str, Any]]) -> None:
        self._server = server
        self._open: set[Duplex] = set()
        self._closed = False

    @contextmanager
    def one_more(self) -> Generator[Duplex]:
        duplex = Duplex(self._server)
        self._open.add(duplex)
        if self._closed:
            duplex.close()
        try:
            yield duplex
        finally:
            self._open.discard(duplex)
            duplex.abandon()

    def close(self) -> None:
        """Ends all connections, and whatever is opened later, each after its last answer."""
        self._closed = True
        for duplex in self._open:
            duplex.close()
