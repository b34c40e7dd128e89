"""MCP over a stream of events and POSTs, as older clients speak it."""

import json
import signal
import threading
import time
from contextlib import ExitStack, contextmanager

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.sse import sse_client
from mcp_types import ResourceUpdatedNotification

from gateway_serving import (
    ACCEPT,
    AUTHORIZED,
    ENVELOPE,
    INITIALIZE,
    SECONDS,
    TOKEN,
    http_server,
)
from memory_gateway.principals import LOCAL, PRINCIPAL
from memory_gateway.sessions import Sessions
from memory_gateway.transports import sse
from memory_gateway.transports.duplex import Duplexes

SHUTDOWN_SECONDS = 10.0  # 5 are promised; the rest is for a busy machine
MOST = 3
LINES = "one\ntwo\rthree\r\nfour\u2028five\u2029six\x85seven\x0b\x0c"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    settings = {"MCP_ENABLE_DEMO_TOOLS": "1"}
    with http_server(tmp_path_factory.mktemp("sse") / "memory.db", **settings) as server:
        yield server


class Stream:
    """A stream that is open, and the way back."""

    def __init__(self, web, response):
        self.web = web
        self.response = response
        self._lines = response.iter_lines()
        self.endpoint = self.event()[1]

    def event(self):
        """The kind and the data of the next event."""
        lines = []
        for line in self._lines:
            if line and not line.startswith(":"):
                lines.append(line.partition(": ")[2])
            elif lines:
                return lines
        raise EOFError

    def say(self, said, **options):
        body = said if isinstance(said, bytes) else json.dumps(said).encode()
        headers = {"Content-Type": "application/json"}
        return self.web.post(self.endpoint, content=body, headers=headers, **options)

    def ask(self, said):
        assert self.say(said).status_code == 202
        return json.loads(self.event()[1])


@contextmanager
def web_of(server, token=TOKEN):
    base = server.url.removesuffix("/mcp")
    headers = {"Authorization": f"Bearer {token}"}
    with httpx2.Client(base_url=base, headers=headers, timeout=SECONDS) as web:
        yield web


@contextmanager
def opened(server, token=TOKEN):
    with web_of(server, token) as web, web.stream("GET", "/sse") as response:
        assert response.status_code == 200, response.read()
        yield Stream(web, response)


def call(number, tool, meta=None, **arguments):
    params = {"name": tool, "arguments": arguments} | ({"_meta": meta} if meta else {})
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


@pytest.mark.filterwarnings("ignore:resources/subscribe is removed")
@pytest.mark.anyio
async def test_the_official_client_has_tools_resources_prompts_completions_and_news(served):
    heard = threading.Event()

    async def hear(message):
        if isinstance(message, ResourceUpdatedNotification):
            heard.set()

    url = served.url.replace("/mcp", "/sse")
    transport = sse_client(url, headers=AUTHORIZED)
    async with Client(transport, mode="legacy", message_handler=hear) as client:
        await client.subscribe_resource("memory://default/by%2Fsse")
        written = await client.call_tool("memory_set", {"key": "by/sse", "value": LINES})
        read = await client.read_resource("memory://default/by%2Fsse")
        prompts = await client.list_prompts()
        while not heard.is_set():
            await client.call_tool("memory_get", {"key": "by/sse"})
    assert written.structured_content["fact"]["principal"] == "installation"
    assert read.contents[0].text == LINES
    assert {prompt.name for prompt in prompts.prompts} == {"recall", "handoff"}


def test_the_newer_protocol_is_served_too(served):
    with opened(served) as stream:
        answer = stream.ask(call(7, "memory_get", ENVELOPE, key="k"))
    assert (answer["id"], answer["result"]["structuredContent"]["found"]) == (7, False)


def test_the_stream_says_what_keeps_proxies_from_holding_it_back(served):
    with opened(served) as stream:
        headers = stream.response.headers
        assert stream.endpoint.startswith("/messages?session_id=")
    assert headers["content-type"].startswith("text/event-stream")
    assert "no-cache" in headers["cache-control"]
    assert headers["x-accel-buffering"] == "no"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_a_stream_is_opened_with_get_alone(served, method):
    with web_of(served) as web:
        response = web.request(method, "/sse", headers=ACCEPT)
    assert (response.status_code, response.headers["allow"]) == (405, "GET")
    assert "/mcp" in response.json()["error"]["message"]


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("path", ["/messages", "/messages/"])
def test_messages_are_sent_with_post_alone(served, method, path):
    with web_of(served) as web:
        response = web.request(method, path)
    assert (response.status_code, response.headers["allow"]) == (405, "POST")
    assert response.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/sse", "/messages?session_id=x"])
def test_without_the_token_there_is_neither_stream_nor_message(served, path):
    with httpx2.Client(base_url=served.url.removesuffix("/mcp"), timeout=SECONDS) as web:
        for response in (web.get(path), web.post(path, json=INITIALIZE)):
            assert response.status_code == 401
            assert response.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("query", ["", "?session_id=", "?session_id=gone", "?session_id=%00%ff"])
def test_a_message_of_an_unknown_session_is_not_found(served, query):
    with web_of(served) as web:
        response = web.post(f"/messages{query}", json=INITIALIZE | {"id": 9})
    assert (response.status_code, response.json()["id"]) == (404, 9)
    assert "GET /sse" in response.json()["error"]["message"]


def test_a_session_ends_with_its_stream(served):
    with web_of(served) as web:
        with opened(served) as stream:
            endpoint = stream.endpoint
            assert web.post(endpoint, json=INITIALIZE).status_code == 202
        deadline = time.monotonic() + SECONDS
        while web.post(endpoint, json=INITIALIZE).status_code != 404:
            assert time.monotonic() < deadline


NO_MESSAGES = {
    "cut": (b'{"jsonrpc":"2.0","id":7,"met', 400),
    "nothing": (b"", 400),
    "a batch": (b"[]", 400),
    "not UTF-8": (b"\xff\xfe", 400),
    "too large": (b" " * (5 * 1024 * 1024), 413),
}


def test_what_is_no_message_is_refused_and_the_session_goes_on(served):
    with opened(served) as stream:
        for body, status in NO_MESSAGES.values():
            response = stream.say(body)
            assert response.status_code == status
            assert response.json()["error"]["message"]
        text = stream.web.post(
            stream.endpoint, content=b"{}", headers={"Content-Type": "text/html"}
        )
        assert text.status_code == 415
        assert "result" in stream.ask(INITIALIZE)


def api(server, method, path, body=None):
    with web_of(server) as web:
        response = web.request(method, f"/api/v1{path}", json=body)
    assert response.is_success, response.text
    return response.json() if response.content else None


def test_a_session_is_its_principals_alone(served):
    grant = {"name": "sse-other", "scopes": ["read"]}
    other = api(served, "POST", "/tokens", grant)["secret"]
    with opened(served) as stream, web_of(served, other) as web:
        assert web.post(stream.endpoint, json=INITIALIZE).status_code == 404
        assert "result" in stream.ask(INITIALIZE)


def test_a_revoked_token_ends_its_stream_and_a_token_may_no_more_than_it_says(served):
    grant = {"name": "sse-reader", "scopes": ["read"], "namespaces": ["default"]}
    secret = api(served, "POST", "/tokens", grant)["secret"]
    with opened(served, secret) as stream:
        stream.ask(INITIALIZE)
        for number, tool in ((2, "memory_set"), (3, "memory_get")):
            extra = {"value": "v"} if tool == "memory_set" else {"namespace": "other"}
            answer = stream.ask(call(number, tool, key="k", **extra))
            assert answer["result"]["structuredContent"]["problem"]["code"] == "forbidden"
        api(served, "DELETE", "/tokens/sse-reader")
        with pytest.raises(EOFError):
            stream.event()
        assert stream.say(INITIALIZE).status_code == 401


def test_streams_count_as_sessions(tmp_path):
    with (
        http_server(tmp_path / "memory.db", MCP_MAX_SESSIONS=str(MOST)) as server,
        ExitStack() as stack,
        web_of(server) as web,
    ):
        idle = web.post("/mcp", json=INITIALIZE, headers=ACCEPT).headers["mcp-session-id"]
        streams = [stack.enter_context(opened(server)) for _ in range(MOST)]
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        session = ACCEPT | {"Mcp-Session-Id": idle}
        assert web.post("/mcp", json=ping, headers=session).status_code == 404
        refused = web.get("/sse")
        assert (refused.status_code, refused.headers["retry-after"].isdigit()) == (503, True)
        assert web.post("/sse", json=INITIALIZE).status_code == 405
        assert all("result" in stream.ask(INITIALIZE) for stream in streams)


@pytest.mark.parametrize("seconds", [1, 30])
def test_sigterm_answers_what_is_under_way_and_then_ends_the_stream(tmp_path, seconds):
    settings = {"MCP_ENABLE_DEMO_TOOLS": "1"}
    with http_server(tmp_path / "memory.db", **settings) as server, opened(server) as stream:
        stream.ask(INITIALIZE)
        stream.say(call(2, "lock_hold", seconds=seconds))
        told = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        answer = json.loads(stream.event()[1])["result"]["structuredContent"]
        with pytest.raises(EOFError):
            stream.event()
        code, said = server.stop(signal.SIGTERM)
        assert time.monotonic() - told < SHUTDOWN_SECONDS
    assert ("held_seconds" in answer) == (seconds == 1)
    assert (code, "Traceback" in said, '"ERROR"' in said) == (0, False, False)


def test_sigterm_ends_fifty_idle_streams(tmp_path):
    with http_server(tmp_path / "memory.db") as server, ExitStack() as stack:
        for _ in range(50):
            stack.enter_context(opened(server)).ask(INITIALIZE)
        told = time.monotonic()
        code, said = server.stop(signal.SIGTERM)
        assert time.monotonic() - told < SHUTDOWN_SECONDS
    assert (code, "Traceback" in said, '"ERROR"' in said) == (0, False, False)


def test_a_client_that_does_not_read_delays_nobody(served):
    with opened(served) as writing, opened(served) as stalled:
        writing.ask(INITIALIZE)
        writing.ask(call(2, "memory_set", key="large", value="x" * 16_000))
        stalled.ask(INITIALIZE)
        for number in range(2, 152):
            assert stalled.say(call(number, "memory_get", key="large")).status_code == 202
        for number in range(3, 53):
            assert writing.ask(call(number, "memory_get", key="large"))["id"] == number
        awaited = set(range(2, 152))
        while awaited:
            awaited.discard(json.loads(stalled.event()[1]).get("id"))


@pytest.mark.anyio
async def test_a_quiet_stream_says_so_before_a_proxy_would_drop_it(server, monkeypatch):
    monkeypatch.setattr(sse, "KEEP_ALIVE_SECONDS", 0.05)
    sent, pinged = [], anyio.Event()

    async def send(part):
        sent.append(part)
        if b": ping" in part.get("body", b""):
            pinged.set()

    async def receive():
        await pinged.wait()
        return {"type": "http.disconnect"}

    async def unreached(*_arguments):
        raise AssertionError

    sessions = Sessions(unreached, most=10)
    streams = sse.EventStreams(Duplexes(server.server), sessions, "/messages")
    scope = {"type": "http", "method": "GET", "path": "/sse", "headers": [], PRINCIPAL: LOCAL}
    with anyio.fail_after(SECONDS):
        await streams(scope, receive, send)
    assert sessions.count == 0
    assert sent[-1] == {"type": "http.response.body", "body": b""}
