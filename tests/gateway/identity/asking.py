"""Clients with tokens, and what they are answered."""

import threading
import time
from contextlib import suppress

import httpx2

from gateway_serving import ACCEPT, INITIALIZE, MODERN, SECONDS, message, modern

WITHIN_SECONDS = 5.0
PING = {"jsonrpc": "2.0", "id": 5, "method": "ping"}


def client_of(server):
    base = server.url.removesuffix("/mcp")
    return httpx2.Client(base_url=base, timeout=SECONDS, headers=ACCEPT)


def bearer(secret):
    return {"Authorization": f"Bearer {secret}"}


def ask(web, secret, method, about=None, /, **params):
    """What a client of the newer protocol is answered."""
    names = {"Mcp-Method": method} | ({"Mcp-Name": about} if about else {})
    headers = bearer(secret) | MODERN | names
    return web.post("/mcp", json=modern(method, **params), headers=headers)


def call(web, secret, tool, **arguments):
    answer = ask(web, secret, "tools/call", tool, name=tool, arguments=arguments)
    assert answer.status_code == 200, answer.text
    return message(answer)["result"]


def status(web, secret):
    return ask(web, secret, "tools/list").status_code


def seconds_until(condition):
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < SECONDS, "it did not come true"
        time.sleep(0.02)
    return time.monotonic() - began


def opened(web, secret):
    response = web.post("/mcp", json=INITIALIZE, headers=bearer(secret))
    assert response.status_code == 200, response.text
    return {"Mcp-Session-Id": response.headers["mcp-session-id"]}


class Reading(threading.Thread):
    """Reads a response to its end; `begun` once its head is there."""

    def __init__(self, web, *request, **options):
        super().__init__(daemon=True)
        self._request, self._options, self._web = request, options, web
        self.begun = threading.Event()
        self.ended_at = 0.0
        self.start()

    def run(self):
        with (
            suppress(httpx2.ReadError),  # the client may be closed before the stream ends
            self._web.stream(*self._request, **self._options) as response,
        ):
            self.begun.set()
            for _ in response.iter_raw():
                pass
            self.ended_at = time.monotonic()
