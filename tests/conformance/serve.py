"""Serves the product's own HTTP application, with what the conformance suite wants to find on it.

The suite cannot send a token, so this adds it to every request; nothing else is changed on the way.
"""

import sys
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp_types import EmptyResult, SetLevelRequestParams

from conformance.fixtures import JSON_SCHEMA_TOOL, fixtures
from gateway_serving import TOKEN
from memory_embedder.client import NoEmbedder
from memory_gateway.app import Application, Door
from memory_gateway.listener import listen, serve_http
from memory_gateway.mcp import MemoryServer
from memory_gateway.memory import Memory
from memory_gateway.observation.metrics import Metrics
from memory_gateway.observation.observer import Observer
from memory_gateway.tokens import InstallationTokens
from memory_gateway.tools.facts import tools
from memory_store.opening import open_store
from memory_store.settings import StoreSettings

LISTS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resource_templates",
    "prompts/list": "prompts",
}
NAMED = {
    "tools/call": lambda params: params.name,
    "resources/read": lambda params: params.uri,
    "prompts/get": lambda params: params.name,
    "completion/complete": lambda params: getattr(params.ref, "name", ""),
}


class Authorized:
    def __init__(self, app: Application) -> None:
        self._app = app
        self.close_streams = app.close_streams
        self.give_up = app.give_up

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            header = (b"authorization", f"Bearer {TOKEN}".encode())
            scope = {**scope, "headers": [*scope["headers"], header]}
        await self._app(scope, receive, send)


class WithFixtures:
    """Answers for the product, and for the fixtures where the product knows no such name."""

    def __init__(self, server: MemoryServer) -> None:
        self._product = server.server
        self._fixtures = fixtures._lowlevel_server
        for method, field in LISTS.items():
            self._replace(method, partial(self._merge, field))
        for method, name in NAMED.items():
            self._replace(method, partial(self._choose, name))
        level = self._set_level
        self._product.add_request_handler("logging/setLevel", SetLevelRequestParams, level)
        boundary = RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience="tests")
        self._product.middleware.append(boundary)
        self._product.get_tool_input_schema = None

    def _replace(self, method: str, handler: Any) -> None:
        own = self._product.get_request_handler(method)
        theirs = self._fixtures.get_request_handler(method)
        kept = partial(handler, own.handler, theirs.handler)
        self._product.add_request_handler(method, own.params_type, kept)

    async def _merge(self, field: str, own: Any, theirs: Any, context: Any, params: Any) -> Any:
        listed, more = await own(context, params), await theirs(context, params)
        extra = [JSON_SCHEMA_TOOL] if field == "tools" else []
        merged = [*getattr(listed, field), *getattr(more, field), *extra]
        return listed.model_copy(update={field: merged})

    async def _choose(self, name: Any, own: Any, theirs: Any, context: Any, params: Any) -> Any:
        known = name(params).startswith(("test_", "test://"))
        return await (theirs if known else own)(context, params)

    async def _set_level(self, _context: Any, _params: Any) -> EmptyResult:
        return EmptyResult()


def main(database: str, *options: str) -> None:
    with ExitStack() as opened:
        store = opened.enter_context(closing(open_store(StoreSettings(memory_db=Path(database)))))
        memory = Memory(store, NoEmbedder("no model here"))
        observer = Observer(Metrics())
        server = MemoryServer(memory, tools(), observer=observer)
        if "--fixtures" in options:
            WithFixtures(server)
        app = Application(server, memory, Door(InstallationTokens(lambda: (TOKEN,))), observer)
        serve_http(Authorized(app), listen("127.0.0.1", 0))


if __name__ == "__main__":
    main(*sys.argv[1:])
