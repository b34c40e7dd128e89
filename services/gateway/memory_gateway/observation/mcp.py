"""Observes MCP requests, whatever transport brings them."""

import asyncio
from collections.abc import Iterable
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from memory_gateway.observation.call import CALL, OK, Call, current, request_id
from memory_gateway.observation.observer import Observer

METHODS = frozenset(
    {
        "initialize",
        "ping",
        "server/discover",
        "tools/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "resources/subscribe",
        "resources/unsubscribe",
        "subscriptions/listen",
        "prompts/list",
        "prompts/get",
        "completion/complete",
        "logging/setLevel",
    }
)
UNKNOWN = "unknown"
TOOL_CALL = "tools/call"


class McpObserver:
    """A middleware of the SDK's server. Notifications are no calls."""

    def __init__(self, observer: Observer, tools: Iterable[str]) -> None:
        self._observer = observer
        self._tools = frozenset(tools)

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        if ctx.request_id is None:
            return await call_next(ctx)
        call = self._begin(ctx)
        token = current.set(call)
        answer: Any = None
        try:
            answer = await call_next(ctx)
            call.note(_outcome(answer))
        except BaseException as error:
            call.note(_failure(error))
            raise
        else:
            return answer
        finally:
            current.reset(token)
            self._finish(ctx, call, answer)

    def _begin(self, context: ServerRequestContext[Any, Any]) -> Call:
        request = _http_call(context)
        if request is None:
            return Call(request_id(), self._name(context), "stdio")
        # The id is the request's if it carries this one message and no more.
        alone = request.via == "mcp" and not request.told
        number = request.id if alone else request_id()
        return Call(number, self._name(context), request.via, client=request.client)

    def _finish(self, context: ServerRequestContext[Any, Any], call: Call, answer: Any) -> None:
        request = _http_call(context)
        if request:
            request.told = True
        if context.method == TOOL_CALL:
            self._observer.keep(call, (context.params or {}).get("arguments"), _told(answer))
        self._observer.finish(call)

    def _name(self, context: ServerRequestContext[Any, Any]) -> str:
        """A name out of a bounded set, since clients can send any."""
        if context.method == TOOL_CALL:
            tool = (context.params or {}).get("name")
            return tool if isinstance(tool, str) and tool in self._tools else UNKNOWN
        return context.method if context.method in METHODS else UNKNOWN


def _http_call(context: ServerRequestContext[Any, Any]) -> Call | None:
    return None if context.request is None else context.request.scope.get(CALL)


def _told(answer: Any) -> Any:
    """The answer without its repetition as text."""
    match answer:
        case {"structuredContent": told}:
            return told
        case _:
            return answer


def _outcome(answer: Any) -> str:
    match answer:
        case {"isError": True, "structuredContent": {"problem": {"code": str(code)}}}:
            return code
        case {"isError": True}:
            return "error"
        case _:
            return OK


def _failure(error: BaseException) -> str:
    match error:
        case MCPError():
            return str(error.error.code)
        case ValidationError():
            return "invalid_params"
        case asyncio.CancelledError():
            return "cancelled"
        case _:
            return "internal"
