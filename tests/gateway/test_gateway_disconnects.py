"""Clients that go away, take calls back or fall silent, in the middle of things."""

import json
import random
import socket
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import httpx2
import psutil
import pytest
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
from lock_holder import lock_held
from waiting import wait_until

JSON = {"Content-Type": "application/json"}
PATIENT = {"MCP_SQLITE_BUSY_TIMEOUT": "60000"}
UNBOUND = {"MCP_RATE_PER_SECOND": "1000000", "MCP_RATE_BURST": "1000000"}
RESET = struct.pack("ii", 1, 0)
CANCELLED = 200
REFUSED = 500
QUIET_SECONDS = 25.0
"""A sign of life is due every 15 seconds; the rest is for a busy machine."""
ALIVE = (": ping", ": heartbeat")
LISTENED = {"resourcesListChanged": True}


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    return tmp_path_factory.mktemp("disconnects") / "memory.db"


@pytest.fixture(scope="module")
def server(database):
    with http_server(database, **UNBOUND, **PATIENT) as server:
        yield server
    assert "Traceback" not in "".join(server.errors)


@pytest.fixture
def web(server):
    headers = AUTHORIZED | ACCEPT | JSON
    base = server.url.removesuffix("/mcp")
    with httpx2.Client(base_url=base, headers=headers, timeout=SECONDS) as web:
        yield web


@pytest.fixture(params=["newer", "older"])
def era(request, web):
    """The headers of a request in that era, and what its messages have to have."""
    if request.param == "newer":
        return MODERN | {"Mcp-Method": "tools/call", "Mcp-Name": "memory_set"}, modern
    opened = web.post("/mcp", json=INITIALIZE)
    session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
    return session, lambda method, **params: asked(7, method, **params)


def asked(number, method, **params):
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def gauge(web, name):
    text = web.get("/metrics").text
    return float(text.split(f"\nmemory_bridge_{name} ")[1].split("\n")[0])


def fact(web, key):
    return web.get("/api/v1/fact", params={"key": key})


@contextmanager
def said(server, message, headers):
    """A connection on which a request was sent and nothing was read."""
    body = json.dumps(message).encode()
    fields = {"Authorization": f"Bearer {TOKEN}", "Host": "localhost"} | JSON | ACCEPT | headers
    lines = [f"{name}: {value}" for name, value in fields.items()]
    head = "\r\n".join(["POST /mcp HTTP/1.1", *lines, f"Content-Length: {len(body)}", "", ""])
    with socket.create_connection(("127.0.0.1", server.port), SECONDS) as connection:
        connection.sendall(head.encode() + body)
        yield connection


@pytest.mark.parametrize("how", ["closed", "reset"])
def test_a_write_that_has_begun_lands_though_its_client_hangs_up(server, web, database, era, how):
    headers, request = era
    key = f"{how}/{len(headers)}"
    write = request("tools/call", name="memory_set", arguments={"key": key, "value": "v"})
    waiting = gauge(web, "calls_waiting")
    with lock_held(database) as let_go:
        with said(server, write, headers) as connection:
            wait_until(lambda: gauge(web, "calls_waiting") > waiting)
            if how == "reset":
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        let_go()
    wait_until(lambda: fact(web, key).status_code == 200)
    assert fact(web, key).json()["version"] == 1


def test_calls_that_are_cancelled_at_any_moment_leave_the_server_as_it_was(web):
    opened = web.post("/mcp", json=INITIALIZE)
    session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
    dice = random.Random(5)

    def call(number):
        arguments = {"key": f"cancelled/{number}", "value": "v"}
        body = asked(number, "tools/call", name="memory_set", arguments=arguments)
        return web.post("/mcp", json=body, headers=session).status_code

    def cancel(number):
        params = {"requestId": number}
        body = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
        return web.post("/mcp", json=body, headers=session).status_code

    with ThreadPoolExecutor(8) as threads:
        calls = [(threads.submit(call, number), number) for number in range(1, CANCELLED + 1)]
        dice.shuffle(calls)
        statuses = {cancel(number) for _, number in calls}
        assert {call.result() for call, _ in calls} == {200}
    assert statuses == {202}
    ping = web.post("/mcp", json=asked("after", "ping"), headers=session)
    assert '"result"' in ping.text
    wait_until(lambda: gauge(web, "calls_waiting") == 0)


def test_many_requests_that_are_refused_early_are_no_fault(server, web):
    wrong = [
        {"headers": {"Accept": "image/png"}, "json": modern("tools/list")},
        {"headers": MODERN, "content": b"{"},
        {"headers": {"Mcp-Session-Id": "none"}, "json": asked(1, "ping")},
        {"headers": {"Content-Type": "text/plain"}, "content": b"x"},
        {"headers": {}, "json": asked(1, "tools/list")},
    ]
    with ThreadPoolExecutor(16) as threads:
        statuses = set(
            threads.map(
                lambda number: web.post("/mcp", **wrong[number % len(wrong)]).status_code,
                range(REFUSED),
            )
        )
    assert statuses <= {400, 404, 406, 415}
    assert "Traceback" not in "".join(server.errors)


def test_connections_of_every_kind_share_one_memory(server, web, database):
    """The files of the database are opened by the server's threads, however many clients come."""
    process = psutil.Process(server.process.pid)

    def files():
        return sum(file.path.startswith(str(database)) for file in process.open_files())

    def come():
        session = web.post("/mcp", json=INITIALIZE).headers["mcp-session-id"]
        web.delete("/mcp", headers={"Mcp-Session-Id": session})
        with web.stream("GET", "/sse") as stream:
            next(stream.iter_lines())
        socket_ = f"ws://127.0.0.1:{server.port}/ws"
        with connect(socket_, additional_headers=AUTHORIZED) as connection:
            connection.send(json.dumps(INITIALIZE))
            connection.recv(SECONDS)
        assert fact(web, "none").status_code == 404

    come()
    before = files()
    for _ in range(20):
        come()
    assert files() <= before + 4


def test_a_quiet_stream_of_any_kind_says_so_before_a_proxy_would_cut_it(web):
    """Proxies cut what is silent for a minute, some for half of it."""
    opened = web.post("/mcp", json=INITIALIZE)
    session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
    listen = {
        "json": modern("subscriptions/listen", notifications=LISTENED),
        "headers": MODERN | {"Mcp-Method": "subscriptions/listen"},
    }
    heard = {}

    def hear(name, response):
        heard[name] = next((it for it in response.iter_lines() if it.startswith(ALIVE)), None)

    with ExitStack() as stack:
        streams = {
            "session": web.stream("GET", "/mcp", headers=session),
            "listen": web.stream("POST", "/mcp", **listen),
            "events": web.stream("GET", "/api/v1/events/stream"),
        }
        listening = [
            threading.Thread(target=hear, args=[name, stack.enter_context(stream)], daemon=True)
            for name, stream in streams.items()
        ]
        for thread in listening:
            thread.start()
        for thread in listening:
            thread.join(QUIET_SECONDS)
        assert all(heard.get(name) for name in streams), heard
