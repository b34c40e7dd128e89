"""The HTTP interface as one application, for scripts, the dashboard and the command line."""

import json
from collections.abc import Sequence

from fastapi import FastAPI, Request, Response
from starlette.routing import Route

from memory_gateway.api import events, fact, facts, namespaces, searches, state, tokens
from memory_gateway.api.document import Operations, describe
from memory_gateway.api.refusals import add_refusals
from memory_gateway.asgi import Receive, Scope, Send
from memory_gateway.calls import Calls

PREFIX = "/api/v1"
DOCUMENT = f"{PREFIX}/openapi.json"
ROOMS = (fact, facts, searches, events, namespaces, tokens, state)
FURTHER = {f"{PREFIX}/events/stream": {"get": events.STREAM}}


class HttpInterface:
    """Serves everything under /api. `streams` are routes beside those of the rooms."""

    def __init__(self, calls: Calls, streams: Sequence[Route] = ()) -> None:
        self._app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
        self._app.router.redirect_slashes = False
        for room in ROOMS:
            self._app.include_router(room.router, prefix=PREFIX)
        document = describe(self._app, FURTHER if streams else {})
        self._encoded = json.dumps(document, ensure_ascii=False).encode()
        for stream in streams:
            stream.methods = {"GET"}  # a HEAD would never be answered to the end
        self._app.router.routes.extend([Route(DOCUMENT, self._document), *streams])
        self._app.state.calls = calls
        self._operations = self._app.state.operations = Operations(document)
        add_refusals(self._app)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "HEAD" and "HEAD" in (self._operations.methods(scope["path"]) or ""):
            scope = {**scope, "method": "GET"}  # the server leaves the body out
        await self._app(scope, receive, send)

    async def _document(self, _request: Request) -> Response:
        return Response(self._encoded, media_type="application/json")
