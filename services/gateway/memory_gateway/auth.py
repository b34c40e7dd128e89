"""The door: who may speak to the gateway over HTTP, decided before a body is read."""

import hmac
from hashlib import sha256
from typing import Protocol

from memory_gateway.asgi import App, Receive, Scope, Send, refuse
from memory_gateway.principals import INSTALLATION, PRINCIPAL, Principal

UNAUTHORIZED = -32001
OPEN_PATHS = frozenset({"/healthz", "/readyz"})


class Verifier(Protocol):
    async def verify(self, token: str) -> Principal | None:
        """Returns who the token proves, None if it proves nobody."""
        ...


class InstallationToken:
    """The one token of the installation. Kept as its hash, compared in constant time."""

    def __init__(self, token: str) -> None:
        self._digest = _digest(token)

    async def verify(self, token: str) -> Principal | None:
        return INSTALLATION if hmac.compare_digest(_digest(token), self._digest) else None


class BearerDoor:
    """Lets a request through with its principal in the scope, or refuses it with 401.

    Only the Authorization header counts: not a cookie, not the query.
    """

    def __init__(self, app: App, verifier: Verifier) -> None:
        self._app = app
        self._verifier = verifier

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or _is_open(scope):
            await self._app(scope, receive, send)
            return
        token, complaint = _bearer(scope)
        principal = await self._verifier.verify(token) if token else None
        if principal is None:
            await _refuse(scope, send, complaint)
            return
        await self._app({**scope, PRINCIPAL: principal}, receive, send)


def _is_open(scope: Scope) -> bool:
    return scope["type"] == "http" and scope["path"] in OPEN_PATHS


def _bearer(scope: Scope) -> tuple[str | None, str | None]:
    """The token, and what to say if it is missing or proves nobody."""
    values = [value for name, value in scope["headers"] if name == b"authorization"]
    if not values:
        return None, None
    if len(values) > 1:
        return None, "The Authorization header was sent more than once."
    scheme, _, token = values[0].decode("latin-1").partition(" ")
    if scheme.lower() != "bearer":
        return None, "The Authorization header must be: Bearer <token>."
    return token.strip(), "The bearer token is not valid."


async def _refuse(scope: Scope, send: Send, complaint: str | None) -> None:
    challenge = 'Bearer error="invalid_token"' if complaint else "Bearer"
    message = complaint or "A bearer token is required: send Authorization: Bearer <token>."
    headers = [(b"www-authenticate", challenge.encode())]
    await refuse(scope, send, 401, UNAUTHORIZED, message, headers)


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogateescape")).digest()
