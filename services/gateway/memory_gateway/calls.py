"""Carries calls from the event loop to the synchronous memory and back, and names the caller."""

import asyncio
import json
import logging
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

from mcp.server.context import ServerRequestContext
from mcp_types import CallToolResult, TextContent
from opentelemetry.trace import get_tracer
from pydantic import BaseModel

from memory_gateway.guard import GuardedStore
from memory_gateway.memory import Memory
from memory_gateway.observation.call import current, request_id
from memory_gateway.observation.tracing import is_tracing
from memory_gateway.principals import Identity, Principal
from memory_gateway.threads import DaemonThreads
from memory_gateway.tools.registry import AnyTool, Context
from memory_gateway.tools.results import ROOM, clip
from memory_store.contract import (
    Busy,
    Caller,
    Fact,
    Internal,
    Problem,
    StoreError,
    Unavailable,
    iso,
)

logger = logging.getLogger(__name__)
tracer = get_tracer(__name__)

READERS = 32
UNDER_WAY = 512
"""Reads at once, and writes. Each write has a thread: one that waited for a thread would wait for
the lock as long again."""
TOO_MANY = (
    f"The server has {UNDER_WAY} such calls under way, which is the most; nothing was done, try"
    " again in a moment."
)
SHARE = UNDER_WAY // 2
"""Of those, what one principal may have: the others always find room."""
TOO_MANY_OF_YOURS = (
    f"This token has {SHARE} such calls under way, which is the most; nothing was done, try again"
    " when some are answered."
)
CLIENT_NAME_LENGTH = 128
UNKNOWN_CLIENT = "unknown"
GIVEN_UP = (
    "The server is stopping and could not wait for the end of this call. Whether a write landed"
    " is unknown: read it, or try again with the same idempotency_key."
)

Answer = TypeVar("Answer")
RequestContext = ServerRequestContext[Any, Any]


class Shares:
    """How many calls each principal has under way, of `most` that it may have."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken: Counter[str] = Counter()
        self._lock = threading.Lock()

    def take(self, name: str) -> Callable[[], None]:
        """Returns what gives the place back, on any thread. Raises `Busy` when none is left."""
        with self._lock:
            if self._taken[name] >= self._most:
                raise Busy(TOO_MANY_OF_YOURS)
            self._taken[name] += 1
        return partial(self._give_back, name)

    def _give_back(self, name: str) -> None:
        with self._lock:
            self._taken[name] -= 1
            if not self._taken[name]:
                del self._taken[name]


class Calls:
    """Where calls cross into worker threads. A call that reached the store always finishes."""

    def __init__(self, memory: Memory, client_id: str | None) -> None:
        self._memory = memory
        self._client_id = client_id
        # Threads of their own: writes that all wait for a lock would otherwise keep reads waiting.
        self._readers = DaemonThreads("reader", READERS)
        self._writers = DaemonThreads("writer", UNDER_WAY)
        self._read_shares, self._write_shares = Shares(SHARE), Shares(SHARE)
        self._under_way: set[asyncio.Task[Any]] = set()

    @property
    def waiting(self) -> int:
        """How many calls run in a thread or wait for one."""
        return self._readers.unfinished + self._writers.unfinished

    def identify(
        self, principal: Principal, claimed: str | None, introduced: str | None
    ) -> Identity:
        """Who asks. A token's own name stands above all; without one the argument counts, else
        the setting, else the client's own introduction."""
        said = next(filter(None, (claimed, self._client_id, introduced)), None)
        name = _client_name(said) if said else None
        call = current.get()
        caller = Caller(
            principal=principal.name,
            source_client=principal.client or name or UNKNOWN_CLIENT,
            self_reported=principal.client is None,
            claimed_client=name if principal.client else None,
            request_id=call.id if call else request_id(),
        )
        if call:
            call.caller = caller
        return Identity(principal, caller)

    async def ask(
        self, identity: Identity, question: Callable[[Context], Answer], *, reading: bool
    ) -> Answer:
        """Returns what the question returns. Raises `StoreError` only.

        That is `Busy` if too many calls are under way: nothing was done and may be tried again.
        """
        threads = self._readers if reading else self._writers
        shares = self._read_shares if reading else self._write_shares
        if threads.unfinished >= UNDER_WAY:
            raise Busy(TOO_MANY)
        give_back = shares.take(identity.principal.name)
        surroundings = copy_context()  # the call and the trace that it belongs to

        def answer() -> Answer:
            return surroundings.run(self._ask, identity, question)

        call = asyncio.create_task(threads.run(answer, give_back))
        self._under_way.add(call)
        try:
            await asyncio.wait([call])
        finally:
            self._under_way.discard(call)
            call.cancel()
        if call.cancelled():
            raise Unavailable(GIVEN_UP)
        return call.result()

    def give_up(self) -> None:
        """Answers every call under way with `Unavailable`, whatever it still waits for."""
        for call in self._under_way:
            call.cancel()

    def _ask(self, identity: Identity, question: Callable[[Context], Answer]) -> Answer:
        caller = identity.caller
        store = GuardedStore(self._memory.store, identity.principal)
        context = Context(store, self._memory.embedder, caller)
        try:
            with tracer.start_as_current_span("memory") if is_tracing() else nullcontext():
                return question(context)
        except StoreError as error:
            _note(error)
            raise
        except Exception as error:
            logger.exception("request %s failed", caller.request_id)
            _note(Internal)
            raise Internal(_internal(caller)) from error
        finally:
            if context.changed:
                self._memory.nudge()


def _note(error: StoreError | type[StoreError]) -> None:
    call = current.get()
    if call:
        call.note(error.code)


def _internal(caller: Caller) -> str:
    return f"Something went wrong inside the memory; its log has request {caller.request_id}."


def _client_name(name: str) -> str:
    """A name that the trail can keep: text without control characters, of a bounded length."""
    text = name.encode("utf-8", "replace").decode()
    return "".join(filter(str.isprintable, text))[:CLIENT_NAME_LENGTH].strip() or UNKNOWN_CLIENT


def success(answer: BaseModel) -> CallToolResult:
    """The answer as structured content, and as JSON text without what is null."""
    return CallToolResult(
        content=[TextContent(text=answer.model_dump_json(exclude_none=True))],
        structured_content=answer.model_dump(mode="json"),
    )


def failure(error: StoreError) -> CallToolResult:
    problem = error.problem()
    return CallToolResult(
        content=[TextContent(text=sentence(problem))],
        structured_content={"problem": problem.model_dump(mode="json")},
        is_error=True,
    )


def sentence(problem: Problem) -> str:
    """The message; after a conflict also what a merge needs."""
    if problem.current is None:
        return problem.message
    return f"{problem.message}\nCurrent fact: {_brief(problem.current)}"


def _brief(fact: Fact) -> str:
    value = clip(fact.value, ROOM)
    current = {
        "version": fact.version,
        "source_client": fact.source_client,
        "updated_at": iso(fact.updated_at),
        "value": value,
        **({} if value == fact.value else {"value_cut": True}),
    }
    return json.dumps(current, ensure_ascii=False)


def tool_question(tool: AnyTool, arguments: BaseModel) -> Callable[[Context], CallToolResult]:
    def question(context: Context) -> CallToolResult:
        return success(tool.run(context, arguments))

    return question
