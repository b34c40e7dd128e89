"""The door: who may speak to the gateway over HTTP, decided before a body is read."""

from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_REQUEST

from memory_gateway.asgi import App, Receive, Scope, Send
from memory_gateway.challenge import refuse_for_now, refuse_token
from memory_gateway.principals import PRINCIPAL
from memory_gateway.tokens import Verifier, proof_of
from memory_gateway.visits import Visits
from memory_store.contract import StoreError

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
NOT_VALID = "The bearer token is not valid."
TWICE = "The Authorization header was sent more than once."
NOT_BEARER = "The Authorization header must be: Bearer <token>."
UNPROVED = "This message came by no request that proves who sent it."


class BearerDoor:
    """Lets a request through with its principal in the scope, or refuses it: with 401, or with
    503 when nobody can say whom the token proves.

    Only the Authorization header counts: not a cookie, not the query. What was let through is
    ended within 5 seconds of the end of its token, as long as `watch` runs.
    """

    def __init__(self, app: App, verifier: Verifier) -> None:
        self._app = app
        self._verifier = verifier
        self._visits = Visits(app, verifier)
        self.watch = self._visits.watch

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or _is_open(scope):
            await self._app(scope, receive, send)
            return
        token, complaint = _bearer(scope)
        if not token:
            await refuse_token(scope, send, complaint)
            return
        proof = proof_of(token)
        try:
            principal = await self._verifier.verify(proof)
        except StoreError:
            await refuse_for_now(scope, send)
            return
        if principal is None:
            await refuse_token(scope, send, NOT_VALID)
            return
        await self._visits.serve(proof, {**scope, PRINCIPAL: principal}, receive, send)


async def proved_only(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """A middleware of the SDK's server behind a door: what came another way than through it would
    otherwise pass for local, which may do anything."""
    if ctx.request is None:
        raise MCPError(INVALID_REQUEST, UNPROVED)
    return await call_next(ctx)


def _is_open(scope: Scope) -> bool:
    return scope["type"] == "http" and scope["path"] in OPEN_PATHS


def _bearer(scope: Scope) -> tuple[bytes | None, str | None]:
    """The token, or what is wrong where one was meant."""
    values = [value for name, value in scope["headers"] if name == b"authorization"]
    if not values:
        return None, None
    if len(values) > 1:
        return None, TWICE
    scheme, _, token = values[0].partition(b" ")
    if scheme.lower() != b"bearer":
        return None, NOT_BEARER
    return token.strip(b" "), NOT_VALID
