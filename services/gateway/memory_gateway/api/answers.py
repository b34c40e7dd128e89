"""What the HTTP interface answers, beside the words of the memory themselves."""

from collections.abc import Callable, Sequence
from typing import TypeVar
from urllib.parse import quote, urlencode

from fastapi import Request, Response
from pydantic import BaseModel, ConfigDict

from memory_gateway.api.strict import query_pairs
from memory_gateway.api.versions import entity_tag
from memory_store.contract import (
    EventPage,
    Fact,
    FactOutcome,
    FactPage,
    NamespaceInfo,
    SearchResult,
    Stats,
    Token,
)

JSON = "application/json"
NEVER_KEPT = {"Cache-Control": "no-store"}
ROOM = 8 * 1024 * 1024
"""Characters after which a page ends early, with its cursor."""

Page = TypeVar("Page", FactPage, EventPage)


class Answer(BaseModel):
    model_config = ConfigDict(frozen=True)


class Facts(Answer):
    facts: tuple[Fact | None, ...]


class Outcomes(Answer):
    outcomes: tuple[FactOutcome, ...]


class Hits(SearchResult):
    """`degraded` says why meaning was asked for and not used."""

    degraded: str | None = None


class Namespaces(Answer):
    namespaces: tuple[NamespaceInfo, ...]


class Deleted(Answer):
    deleted: int


class Tokens(Answer):
    tokens: tuple[Token, ...]


class State(Stats):
    """`degraded` says why search by meaning cannot be had now, if it is known that it cannot."""

    server_version: str
    degraded: str | None = None


class Version(Answer):
    name: str
    version: str


def answer(content: BaseModel, status: int = 200, headers: dict[str, str] = NEVER_KEPT) -> Response:
    return Response(content.model_dump_json(), status, headers, media_type=JSON)


def fact_answer(fact: Fact, status: int = 200) -> Response:
    return answer(fact, status, _tagged(fact))


def unchanged(fact: Fact) -> Response:
    """The client has this version already."""
    return Response(status_code=304, headers=_tagged(fact))


def _tagged(fact: Fact) -> dict[str, str]:
    return {"ETag": entity_tag(fact), "Cache-Control": "private, no-cache"}


def page_answer(request: Request, fetch: Callable[[int], Page], limit: int) -> Response:
    """A page that `fetch` gives for a limit, and where the next one is."""
    page = fetch(limit)
    items = page.facts if isinstance(page, FactPage) else page.events
    kept = _fitting(items)
    if kept < len(items):
        page = fetch(kept)
    headers = dict(NEVER_KEPT)
    if page.next_cursor is not None:
        headers["Link"] = f'<{_with_cursor(request, page.next_cursor)}>; rel="next"'
    return answer(page, headers=headers)


def _fitting(items: Sequence[BaseModel]) -> int:
    """How many of the first items fit into one answer: at least one."""
    room = ROOM
    for count, item in enumerate(items):
        room -= len(item.model_dump_json())
        if room < 0:
            return max(count, 1)
    return len(items)


def _with_cursor(request: Request, cursor: str) -> str:
    """The same list from the cursor on, without a host: a proxy may give it another."""
    pairs = [(name, value) for name, value in query_pairs(request) if name != "cursor"]
    query = urlencode([*pairs, ("cursor", cursor)], quote_via=quote, safe="")
    return f"{request.url.path}?{query}"
