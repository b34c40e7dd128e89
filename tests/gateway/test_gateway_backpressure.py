"""A client that stops reading what it subscribed to slows nobody, and costs a bounded memory."""

import json
import re
import socket
import time
from contextlib import closing, contextmanager

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
    message,
    modern,
)
from memory_gateway.resources import fact_uri

WRITES = 500
VALUE = "x" * 16_000
SMALL_WINDOW = 4096
WRITE_SECONDS = 2.0
"""Far above what a write takes, far below what a client that does not read would make it take."""
BOUND = 48 * 1024 * 1024
"""Of all that is kept for one client, and of what a process grows by anyway while it writes."""
KEYS = [f"{'🔑' * 200} {number}" for number in range(WRITES)]
"""So long that the notices of all of them fit into no buffer on the way to the client."""


@pytest.fixture
def server(tmp_path):
    with http_server(tmp_path / "memory.db", MCP_RATE_PER_SECOND="100000") as server:
        yield server


@pytest.fixture
def web():
    with httpx2.Client(timeout=SECONDS, headers=AUTHORIZED | ACCEPT) as web:
        yield web


def slow_socket(server):
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_WINDOW)
    slow.settimeout(SECONDS)
    slow.connect(("127.0.0.1", server.port))
    return slow


@contextmanager
def stalled(server, method, path, marker, body=b"", **headers):
    """A stream that is read up to the marker; gives its socket and what was read."""
    lines = [
        f"{method} {path} HTTP/1.1",
        f"Host: 127.0.0.1:{server.port}",
        f"Authorization: Bearer {TOKEN}",
        f"Accept: {headers.pop('accept', 'text/event-stream')}",
        f"Content-Length: {len(body)}",
        *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items()),
    ]
    with closing(slow_socket(server)) as slow:
        slow.sendall("\r\n".join([*lines, "", ""]).encode() + body)
        read = b""
        while marker not in read:
            part = slow.recv(256)
            assert part, read
            read += part
        yield slow, read


def rest_of(slow):
    """Reads on to the end; returns what the client had not read."""
    read = bytearray()
    while part := slow.recv(1 << 16):
        read += part
        if read.endswith(b"0\r\n\r\n"):
            break
    return re.sub(rb"\r\n[0-9a-f]+\r\n", b"", bytes(read))


def call(web, server, tool, **arguments):
    request = modern("tools/call", name=tool, arguments=arguments)
    names = MODERN | {"Mcp-Method": "tools/call", "Mcp-Name": tool}
    return message(web.post(server.url, json=request, headers=names))["result"]


def write_all(web, server):
    """Writes every value; returns how long the slowest write took."""
    slowest = 0.0
    for key in KEYS:
        began = time.monotonic()
        assert not call(web, server, "memory_set", key=key, value=VALUE).get("isError")
        slowest = max(slowest, time.monotonic() - began)
    return slowest


def measured(web, server):
    """How long the slowest write took, and by how much the server grew."""
    process = psutil.Process(server.process.pid)
    call(web, server, "memory_set", key="warm", value=VALUE)
    before = process.memory_info().rss
    return write_all(web, server), process.memory_info().rss - before


def gauge(web, server, name):
    text = web.get(f"http://127.0.0.1:{server.port}/metrics").text
    return float(re.search(rf"^\w*{name} ([0-9.]+)$", text, re.MULTILINE)[1])


def wait_for(condition):
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.05)


def asked(number, method, **params):
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
SUBSCRIBING = [
    asked(number, "resources/subscribe", uri=fact_uri("default", key))
    for number, key in enumerate(KEYS)
]


def session_of(web, server):
    """A session that has subscribed to everything; gives its headers."""
    opened = web.post(server.url, json=INITIALIZE)
    session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
    web.post(server.url, json=INITIALIZED, headers=session)
    for subscribe in SUBSCRIBING:
        assert message(web.post(server.url, json=subscribe, headers=session))["result"] == {}
    return session


def test_the_get_stream_of_a_session_is_ended_and_the_session_goes_on(server, web):
    session = session_of(web, server)
    number = session["Mcp-Session-Id"]
    with stalled(server, "GET", "/mcp", b"\r\n\r\n", mcp_session_id=number):
        slowest, grown = measured(web, server)
        assert slowest < WRITE_SECONDS
        assert grown < BOUND
        began = time.monotonic()
        answer = web.post(server.url, json=asked(1, "ping"), headers=session)
        assert message(answer)["result"] == {}
        assert time.monotonic() - began < 2 * WRITE_SECONDS
        wait_for(lambda: gauge(web, server, "subscribers_dropped") == 1)
        assert gauge(web, server, "subscribers_sessions") == 0
        with web.stream("GET", server.url, headers=session) as again:
            said = (json.loads(it[6:]) for it in again.iter_lines() if it.startswith("data: "))
            heard = {next(said)["method"].rpartition("/")[2] for _ in range(2)}
    assert "updated" in heard


def test_a_listen_stream_is_ended_with_the_reason(server, web):
    uris = [fact_uri("default", key) for key in KEYS]
    wanted = {"resourcesListChanged": True, "resourceSubscriptions": uris}
    body = json.dumps(modern("subscriptions/listen", notifications=wanted)).encode()
    headers = {name.replace("-", "_"): value for name, value in MODERN.items()}
    with stalled(
        server,
        "POST",
        "/mcp",
        b"acknowledged",
        body,
        accept=ACCEPT["Accept"],
        content_type="application/json",
        mcp_method="subscriptions/listen",
        **headers,
    ) as (slow, _):
        slowest, grown = measured(web, server)
        assert slowest < WRITE_SECONDS
        assert grown < BOUND
        wait_for(lambda: gauge(web, server, "subscribers_dropped") == 1)
        assert gauge(web, server, "subscribers_listen_streams") == 0
        last = rest_of(slow).rpartition(b"data: ")[2]
    assert b"has read nothing" in last


def test_an_event_stream_is_ended_with_the_reason_and_gone_on_with_from_there(server, web):
    with stalled(server, "GET", "/api/v1/events/stream", b"following") as (slow, _):
        slowest, grown = measured(web, server)
        assert slowest < WRITE_SECONDS
        assert grown < BOUND
        rest = rest_of(slow)
    told = json.loads(rest.rpartition(b"event: dropped\ndata: ")[2].partition(b"\n")[0])
    assert "did not read" in told["reason"]
    number = rest.count(b'"kind":"set"')
    url = f"http://127.0.0.1:{server.port}/api/v1/events/stream"
    with web.stream("GET", url, headers={"Last-Event-ID": str(told["after"])}) as again:
        events = (json.loads(line[6:]) for line in again.iter_lines() if line.startswith("data: "))
        keys = [next(events)["key"] for _ in range(WRITES + 1 - number)]
    assert keys == KEYS[number - 1 :]
    assert 0 < number < WRITES


def test_a_stream_of_the_older_transport_slows_nobody(server, web):
    with stalled(server, "GET", "/sse", b"session_id=") as (slow, read):
        while not (place := re.search(rb"data: (\S+)\r\n\r\n", read)):
            read = read + slow.recv(256)  # noqa: PLW2901  it is what was read so far
        url = f"http://127.0.0.1:{server.port}{place[1].decode()}"
        for said in [INITIALIZE, INITIALIZED, *SUBSCRIBING]:
            assert web.post(url, json=said).status_code == 202
        wait_for(lambda: gauge(web, server, "subscribers_resources") == WRITES)
        slowest, grown = measured(web, server)
    assert slowest < WRITE_SECONDS
    assert grown < BOUND
    wait_for(lambda: gauge(web, server, "subscribers_sessions") == 0)


def test_a_websocket_slows_nobody(server, web):
    url = f"ws://127.0.0.1:{server.port}/ws"
    slow = slow_socket(server)
    with connect(
        url, sock=slow, additional_headers=AUTHORIZED, subprotocols=["mcp"], max_queue=1
    ) as client:
        for said in [INITIALIZE, INITIALIZED]:
            client.send(json.dumps(said))
        client.recv(SECONDS)
        for subscribe in SUBSCRIBING:
            client.send(json.dumps(subscribe))
            client.recv(SECONDS)
        slowest, grown = measured(web, server)
    assert slowest < WRITE_SECONDS
    assert grown < BOUND
    wait_for(lambda: gauge(web, server, "subscribers_sessions") == 0)
