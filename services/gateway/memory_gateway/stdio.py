"""MCP over stdin and stdout, for clients that start the server themselves.

A line that cannot be read is answered, and what was asked before the client closed its end, or
before SIGTERM, is answered before the server ends.
"""

import os
import signal
import threading
from contextlib import suppress
from functools import partial

import anyio
import anyio.from_thread
import anyio.lowlevel
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from memory_gateway.frames import Frame, LineReader, Unreadable
from memory_gateway.mcp import MemoryServer
from memory_gateway.pipes import Pipes
from memory_gateway.threads import DaemonThreads

CHUNK = 1 << 16
SIGNAL_SECONDS = 2.0
"""How long calls may go on after SIGTERM; what then waits for a lock is answered that it does."""
TELLING_SECONDS = 0.3
STALLED_SECONDS = 1.5
"""A client that takes nothing for so long while the server ends is not waited for."""
ENDED = (anyio.RunFinishedError, anyio.BrokenResourceError, anyio.ClosedResourceError)

Incoming = SessionMessage | Exception


class StdioConnection:
    """One client on two pipes. Made and served on the event loop.

    `last_answers_seconds` is how long calls may go on when the client has closed its end.
    """

    def __init__(self, server: MemoryServer, pipes: Pipes, last_answers_seconds: float) -> None:
        self._server = server
        self._pipes = pipes
        self._last_answers_seconds = last_answers_seconds
        self._writing = False
        self._awaited: set[int | str] = set()
        self._answered = anyio.Condition()
        self._to_server, self._from_client = anyio.create_memory_object_stream[Incoming](0)
        self._to_client, self._from_server = anyio.create_memory_object_stream[SessionMessage](0)
        self._errors = self._to_client.clone()

    async def serve(self) -> None:
        """Returns when the client is gone or a signal came, after the last answers."""
        server = self._server.server
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._write_all, tasks.cancel_scope)
            tasks.start_soon(self._watch_signals)
            self._start_reader()
            await server.run(
                self._from_client, self._to_client, server.create_initialization_options()
            )
            self._errors.close()
            tasks.cancel_scope.cancel()

    def _start_reader(self) -> None:
        token = anyio.lowlevel.current_token()
        threading.Thread(target=self._read_all, args=(token,), name="stdin", daemon=True).start()

    def _read_all(self, token: anyio.lowlevel.EventLoopToken) -> None:
        """Runs on a thread: a read of a pipe cannot be cancelled, but a daemon can be left."""
        lines = LineReader()
        with suppress(*ENDED):
            while chunk := _read(self._pipes.incoming):
                for frame in lines.feed(chunk):
                    anyio.from_thread.run(self._take, frame, token=token)
            for frame in lines.end():
                anyio.from_thread.run(self._take, frame, token=token)
            anyio.from_thread.run(self._end, self._last_answers_seconds, token=token)

    async def _take(self, frame: Frame) -> None:
        if isinstance(frame, Unreadable):
            await self._errors.send(SessionMessage(frame.answer))
            return
        match frame:
            case JSONRPCRequest(id=number):
                self._awaited.add(number)
            case JSONRPCNotification(
                method="notifications/cancelled", params={"requestId": int() | str() as number}
            ):
                await self._settle(number)  # what was cancelled is never answered
            case _:
                pass
        await self._to_server.send(SessionMessage(frame))

    async def _watch_signals(self) -> None:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for _ in signals:
                await self._end(SIGNAL_SECONDS)

    async def _end(self, seconds: float) -> None:
        """Waits for the answers that are due; the SDK would cancel their calls."""
        self._server.close_streams()
        if not await self._all_answered(seconds):
            await self._server.give_up()
            await self._all_answered(TELLING_SECONDS)
        self._to_server.close()

    async def _all_answered(self, seconds: float) -> bool:
        """Waits until all is answered, or the time is over, or the client does not read."""
        with anyio.move_on_after(seconds):
            async with self._answered:
                while self._awaited:
                    with anyio.move_on_after(STALLED_SECONDS) as waiting:
                        await self._answered.wait()
                    if waiting.cancelled_caught and self._writing:
                        break
        return not self._awaited

    async def _write_all(self, scope: anyio.CancelScope) -> None:
        threads = DaemonThreads("stdout", 1)
        try:
            async for outgoing in self._from_server:
                message = outgoing.message
                line = message.model_dump_json(by_alias=True, exclude_unset=True) + "\n"
                self._writing = True
                await threads.run(partial(_write, self._pipes.outgoing, line.encode()))
                self._writing = False
                if isinstance(message, JSONRPCResponse | JSONRPCError):
                    await self._settle(message.id)
        except OSError:
            scope.cancel()  # the client does not read any more

    async def _settle(self, number: int | str | None) -> None:
        if number is not None:
            self._awaited.discard(number)
        async with self._answered:
            self._answered.notify_all()


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, CHUNK)
    except OSError:
        return b""


def _write(descriptor: int, line: bytes) -> None:
    rest = memoryview(line)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
