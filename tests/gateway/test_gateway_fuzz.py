"""Spoiled requests on every way in: none is a fault of the server, and none is told too much."""

import json
import re
import statistics
import threading
import time
from contextlib import ExitStack, suppress

import httpx2
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from gateway_serving import (
    ACCEPT,
    AUTHORIZED,
    INITIALIZE,
    MODERN,
    SECONDS,
    TOKEN,
    http_server,
    modern,
)
from mutations import spoiled

JSON = {"Content-Type": "application/json"}
UNBOUND = {"MCP_RATE_PER_SECOND": "1000000", "MCP_RATE_BURST": "1000000"}
LEAK = re.compile(
    rf"Traceback|File \"|\.py\b|site-packages|pydantic|sqlite|SELECT |INSERT |UPDATE |{TOKEN}",
    re.IGNORECASE,
)
FAULT = 500
INTERNAL_ERROR = 1011
EXAMPLES = 40
URI = "memory://default/fuzz"
ASKED = {
    "tools/call": {
        "name": "memory_set",
        "arguments": {"key": "fuzz", "value": "v", "tags": ["a"], "metadata": {"b": [1]}},
    },
    "tools/list": {},
    "resources/read": {"uri": URI},
    "resources/list": {"cursor": "abc"},
    "prompts/get": {"name": "recall", "arguments": {"topic": "t"}},
    "completion/complete": {
        "ref": {"type": "ref/resource", "uri": "memory://{namespace}/{key}"},
        "argument": {"name": "key", "value": "f"},
    },
}
CALLED = {
    "memory_search": {"query": "v", "top_k": 5, "mode": "lexical", "min_score": 0.1},
    "memory_list": {"prefix": "f", "tags": ["a"], "limit": 2},
    "memory_history": {"key": "fuzz", "limit": 2},
    "memory_get": {"key": "fuzz", "at": 1},
    "memory_set_many": {"facts": [{"key": "fuzz", "value": "v"}]},
    "memory_restore": {"key": "fuzz", "version": 1},
}
NEWER = [
    *(modern(method, **params) for method, params in ASKED.items()),
    *(modern("tools/call", name=name, arguments=given) for name, given in CALLED.items()),
    modern("server/discover"),
    modern("subscriptions/listen", notifications={"resourceSubscriptions": [URI]}),
]
OLDER = [
    *({"jsonrpc": "2.0", "id": 7, "method": it, "params": ASKED[it]} for it in ASKED),
    {"jsonrpc": "2.0", "id": 7, "method": "resources/subscribe", "params": {"uri": URI}},
    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}},
    {"jsonrpc": "2.0", "id": 7, "result": {}},
    INITIALIZE,
]
BODIES = {
    ("PUT", "/api/v1/fact?key=fuzz"): {"value": "v", "tags": ["a"], "metadata": {"b": [1]}},
    ("POST", "/api/v1/search"): {"query": "v", "top_k": 5, "mode": "lexical"},
    ("POST", "/api/v1/tokens"): {"name": "t", "scopes": ["read"], "namespaces": ["a"]},
    ("PATCH", "/api/v1/namespace?namespace=none"): {"name": "other"},
}
HEADERS = st.sampled_from(
    [
        {},
        {"Content-Encoding": "gzip"},
        {"Accept": "text/event-stream"},
        {"Accept": "application/json"},
        {"MCP-Protocol-Version": "\xff"},
        {"Mcp-Method": "tools/call", "Mcp-Name": "=?base64?////?="},
        {"Last-Event-ID": "9" * 400},
        {"Content-Type": "application/json; charset=utf-16"},
        {"traceparent": "00-" + "0" * 32 + "-" + "f" * 16 + "-zz"},
        {"baggage": "a=%ff,=;"},
        {"X-Request-Id": "\xe9\t\xe9"},
    ]
)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with http_server(tmp_path_factory.mktemp("fuzz") / "memory.db", **UNBOUND) as server:
        yield server


@pytest.fixture
def web(served):
    headers = AUTHORIZED | ACCEPT | JSON
    base = served.url.removesuffix("/mcp")
    with httpx2.Client(base_url=base, headers=headers, timeout=SECONDS) as web:
        usual = milliseconds(web)
        yield web
        assert milliseconds(web) < 5 * usual + 50
    assert "Traceback" not in "".join(served.errors)


@pytest.fixture
def seconds(request):
    """How long each way in is tried."""
    return request.config.getoption("--fuzz-seconds") / 4


def milliseconds(web):
    """In the middle, for a call that has nothing to do with what was sent."""
    call = modern("tools/call", name="memory_get", arguments={"key": "usual"})
    names = MODERN | {"Mcp-Method": "tools/call", "Mcp-Name": "memory_get"}
    times = []
    for _ in range(15):
        begun = time.perf_counter()
        assert web.post("/mcp", json=call, headers=names).status_code == 200
        times.append((time.perf_counter() - begun) * 1000)
    return statistics.median(times)


def fuzz(seconds, requests, attempt):
    """Tries one request after the other for so long."""
    until = time.monotonic() + seconds
    number = 0
    while time.monotonic() < until:

        @seed(number)
        @settings(
            max_examples=EXAMPLES,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(requests)
        def some(asked):
            if time.monotonic() < until:
                attempt(asked)

        some()
        number += 1


def spoiled_one(requests):
    return st.sampled_from(requests).flatmap(spoiled)


def answer(web, method, path, body, headers):
    """The status and the text of a response; of a stream its first event."""
    sent = {name: value.encode("latin-1") for name, value in headers.items()}
    with web.stream(method, path, content=body, headers=sent) as response:
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            response.read()
            return response.status_code, response.text
        return response.status_code, next(filter(None, response.iter_lines()), "")


def is_well(status, text):
    assert status < FAULT, (status, text)
    assert not LEAK.search(text), text
    assert "-32603" not in text, text


def test_spoiled_requests_of_the_newer_protocol_are_no_faults(web, seconds):
    def attempt(asked):
        body, headers = asked
        is_well(*answer(web, "POST", "/mcp", body, MODERN | headers))

    fuzz(seconds, st.tuples(spoiled_one(NEWER), HEADERS), attempt)


def test_spoiled_requests_in_a_session_are_no_faults(web, seconds):
    opened = web.post("/mcp", json=INITIALIZE)
    session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}

    def attempt(asked):
        body, headers = asked
        is_well(*answer(web, "POST", "/mcp", body, session | headers))

    fuzz(seconds, st.tuples(spoiled_one(OLDER), HEADERS), attempt)


def test_spoiled_requests_of_the_http_interface_are_no_faults(web, seconds):
    def attempt(asked):
        (method, path), body, headers = asked
        is_well(*answer(web, method, path, body, headers))

    requests = st.sampled_from([*BODIES]).flatmap(
        lambda place: st.tuples(st.just(place), spoiled(BODIES[place]), HEADERS)
    )
    fuzz(seconds, requests, attempt)


class Heard:
    """A stream of the older transport, whose every line is looked at as it comes."""

    def __init__(self, response):
        self._lines = response.iter_lines()
        self.leaks = []
        self.endpoint = next(it for it in self._lines if "session_id" in it).removeprefix("data: ")
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        with suppress(httpx2.HTTPError):
            self.leaks.extend(line for line in self._lines if LEAK.search(line))


def test_spoiled_messages_to_a_stream_are_no_faults(web, seconds):
    with web.stream("GET", "/sse") as response:
        heard = Heard(response)
        web.post(heard.endpoint, json=INITIALIZE)
        fuzz(
            seconds / 2,
            spoiled_one(OLDER),
            lambda body: is_well(*answer(web, "POST", heard.endpoint, body, {})),
        )
        assert heard.leaks == []


class Socket:
    """A WebSocket that is opened again when what it was sent has closed it."""

    def __init__(self, server):
        self._url = f"ws://127.0.0.1:{server.port}/ws"
        self._connection = None
        self._open = ExitStack()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._open.close()

    def ask(self, text):
        """All that comes until an answer to a ping that is sent after it."""
        try:
            self._connection = self._connection or self._opened()
            self._connection.send(text)
            self._connection.send(json.dumps(request_of("ping-after-it", "ping")))
            return [*self._until("ping-after-it")]
        except ConnectionClosed as closed:
            if closed.rcvd and closed.rcvd.code == INTERNAL_ERROR:
                raise
            self._connection = None
            return []

    def _opened(self):
        self._open.close()
        connection = self._open.enter_context(
            connect(self._url, additional_headers=AUTHORIZED, max_size=None)
        )
        connection.send(json.dumps(INITIALIZE))
        connection.recv(SECONDS)
        return connection

    def _until(self, number):
        while json.loads(text := self._connection.recv(SECONDS)).get("id") != number:
            yield text


def request_of(number, method):
    return {"jsonrpc": "2.0", "id": number, "method": method}


@pytest.mark.usefixtures("web")
def test_spoiled_messages_on_a_websocket_are_no_faults(served, seconds):
    with Socket(served) as connection:

        def attempt(body):
            for text in connection.ask(body):
                is_well(200, text)

        fuzz(seconds / 2, spoiled_one(OLDER + NEWER), attempt)
