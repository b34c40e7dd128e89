"""The refusals of whoever has not proved who it is, or cannot now."""

from memory_gateway.asgi import FAILED, Scope, Send, refuse

UNAUTHORIZED = -32001
MISSING = "A bearer token is required: send Authorization: Bearer <token>."
UNVERIFIABLE = "Whether the bearer token is valid cannot be found out now: try again in a moment."
RETRY = [(b"retry-after", b"1")]


async def refuse_token(scope: Scope, send: Send, complaint: str | None) -> None:
    """401; without a complaint there was no token."""
    challenge = 'Bearer error="invalid_token"' if complaint else "Bearer"
    headers = [(b"www-authenticate", challenge.encode())]
    await refuse(scope, send, 401, UNAUTHORIZED, complaint or MISSING, headers)


async def refuse_for_now(scope: Scope, send: Send) -> None:
    """503: a 401 would have clients throw away a token that is good."""
    await refuse(scope, send, 503, FAILED, UNVERIFIABLE, RETRY)
