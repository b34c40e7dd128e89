"""`/metrics`, for who may read everything."""

from collections.abc import Awaitable, Callable

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response

from memory_gateway.asgi import REFUSED, error_body
from memory_gateway.observation.metrics import Metrics
from memory_gateway.principals import principal_of
from memory_store.contract import Forbidden

TEXT = "text/plain; version=0.0.4; charset=utf-8"


def metrics_route(metrics: Metrics) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            principal_of(request).require("read", None)
        except Forbidden as error:
            body = error_body(REFUSED, error.message, None)
            return Response(body, error.status, media_type="application/json")
        return Response(await anyio.to_thread.run_sync(metrics.text), media_type=TEXT)

    return answer
