"""The HTTP interface of a served memory, and what its answers must look like."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from gateway_serving import AUTHORIZED, SECONDS, http_server

API = "/api/v1"
PROBLEM = "application/problem+json"


@contextmanager
def interface(database: Path, **settings: str) -> Iterator[httpx2.Client]:
    """A client of the installation that speaks to a server of its own."""
    with http_server(database, **settings) as server, client(server.url) as web:
        yield web


def client(url: str, **headers: str) -> httpx2.Client:
    """A client of `/api/v1` on the server whose MCP address is given."""
    base = url.removesuffix("/mcp") + API
    return httpx2.Client(base_url=base, headers=AUTHORIZED | headers, timeout=SECONDS)


def problem(response: httpx2.Response, status: int, code: str) -> dict[str, Any]:
    """The problem that a response tells, once it is one in every point."""
    told = response.json()
    assert (response.status_code, told["status"], told["code"]) == (status, status, code), told
    assert response.headers["content-type"] == PROBLEM
    assert told["type"] == "about:blank"
    assert told["title"]
    assert told["detail"]
    assert told["request_id"] == response.headers["x-request-id"]
    return told


def set_fact(web: httpx2.Client, key: str, value: str, **more: Any) -> httpx2.Response:
    """`more` are headers, with underscores for their hyphens."""
    headers = {name.replace("_", "-"): text for name, text in more.items()}
    return web.put("/fact", params={"key": key}, json={"value": value}, headers=headers)


def next_page(response: httpx2.Response) -> str | None:
    """What the `Link` header says is next."""
    found = re.fullmatch(r'<(/[!-~]+)>; rel="next"', response.headers.get("link", ""))
    return found[1] if found else None
