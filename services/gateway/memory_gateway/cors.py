"""Web pages of other origins, which may speak to the server if their origin is listed."""

from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response

from memory_gateway.asgi import REFUSED, App, error_body

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
ASKED = (
    "Authorization",
    "Content-Type",
    "Idempotency-Key",
    "If-Match",
    "If-None-Match",
    "Last-Event-ID",
    "Mcp-Method",
    "Mcp-Name",
    "Mcp-Protocol-Version",
    "Mcp-Session-Id",
    "Memory-Client-Id",
    "X-Request-Id",
)
TOLD = (
    "ETag",
    "Link",
    "Location",
    "Mcp-Session-Id",
    "Retry-After",
    "WWW-Authenticate",
    "X-Request-Id",
)


class CrossOrigin(CORSMiddleware):
    """Lets web pages of the listed origins speak to the server; asks no token of a preflight."""

    def __init__(self, app: App, origins: Collection[str]) -> None:
        super().__init__(
            app,
            allow_origins=origins,
            allow_methods=METHODS,
            allow_headers=ASKED,
            expose_headers=TOLD,
        )

    def preflight_response(self, request_headers: Headers) -> Response:
        response = super().preflight_response(request_headers)
        if response.status_code == 200:  # noqa: PLR2004  as Starlette gives it
            return response
        message = f"{bytes(response.body).decode()}; MCP_ALLOWED_ORIGINS lists the origins."
        return Response(
            error_body(REFUSED, message, None),
            response.status_code,
            {"vary": response.headers["vary"]},
            "application/json",
        )
