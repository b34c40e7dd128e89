"""How a request of the HTTP interface reaches the memory, and in whose name."""

from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, Header, Request, Response

from memory_gateway.calls import Calls
from memory_gateway.context import Context
from memory_gateway.principals import Identity, principal_of
from memory_store.contract import Invalid

Question = Callable[[Context], Response]
NO_RETRIES = (
    "Idempotency-Key is not taken here: setting, deleting and restoring a fact take it, and each of"
    " many writes has its own idempotency_key."
)


class Asked:
    """One request. Its questions run on a worker thread, the making of the response included."""

    def __init__(self, request: Request, calls: Calls, identity: Identity) -> None:
        self.request = request
        self._calls = calls
        self._identity = identity

    async def read(self, question: Question) -> Response:
        """Raises `StoreError`."""
        return await self._calls.ask(self._identity, question, reading=True)

    async def write(self, question: Question) -> Response:
        """Raises `StoreError`."""
        return await self._calls.ask(self._identity, question, reading=False)


ClientId = Annotated[
    str | None,
    Header(
        alias="Memory-Client-Id",
        description="Who asks, for the trail. A token with a name of its own goes by that name,"
        " and this is kept beside it; without it the `User-Agent` stands there.",
    ),
]


async def asked(request: Request, client_id: ClientId = None) -> Asked:
    calls: Calls = request.app.state.calls
    introduced = request.headers.get("user-agent", "").partition("/")[0]
    claimed = client_id and _as_sent(client_id)
    identity = calls.identify(principal_of(request), claimed, introduced)
    return Asked(request, calls, identity)


def _as_sent(text: str) -> str:
    """A header's text is read as Latin-1, and mostly sent as UTF-8."""
    return text.encode("latin-1").decode("utf-8", "replace")


Asking = Annotated[Asked, Depends(asked)]


async def _refuse_retry_key(request: Request) -> None:
    if "idempotency-key" in request.headers:
        raise Invalid(NO_RETRIES, argument="Idempotency-Key")


NOT_REPEATED = Depends(_refuse_retry_key)
"""For what writes and would be done again: whoever sends a key for retries relies on it."""
