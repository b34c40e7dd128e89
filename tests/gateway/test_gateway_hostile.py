"""Floods and oddities from who has a token: the server stays up, small and as quick as before."""

import gzip
import json
import socket
import statistics
import threading
import time
from contextlib import ExitStack, contextmanager
from functools import partial

import httpx2
import psutil
import pytest

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

JSON = {"Content-Type": "application/json"}
UNBOUND = {"MCP_RATE_PER_SECOND": "1000000", "MCP_RATE_BURST": "1000000"}
CALL = modern("tools/call", name="memory_get", arguments={"key": "k"})
NAMES = MODERN | {"Mcp-Method": "tools/call", "Mcp-Name": "memory_get"}
MB = 1024 * 1024
HALF_OPEN = 1_000
PIPELINED = 200
MOST_SESSIONS = 256
WARM_UP = 300


@contextmanager
def client_of(server):
    headers = AUTHORIZED | ACCEPT | JSON
    base = server.url.removesuffix("/mcp")
    with httpx2.Client(base_url=base, headers=headers, timeout=SECONDS) as web:
        yield web


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with http_server(tmp_path_factory.mktemp("hostile") / "memory.db", **UNBOUND) as server:
        yield server
    assert "Traceback" not in "".join(server.errors)


@pytest.fixture(scope="module")
def web(server):
    with client_of(server) as web:
        yield web


@pytest.mark.timeout(600)
def test_sessions_that_were_opened_and_left_leave_no_memory_behind(tmp_path, request):
    """Most are just left, the last are ended, and some of these have a stream open."""
    with http_server(tmp_path / "memory.db", **UNBOUND) as server, client_of(server) as web:
        process = psutil.Process(server.process.pid)
        for _ in range(WARM_UP):
            end(web, [opened(web)])
        before = process.memory_info().rss
        for _ in range(request.config.getoption("--sessions") // MOST_SESSIONS):
            sessions = [opened(web) for _ in range(MOST_SESSIONS)]
            assert gauge(web, "sessions") <= MOST_SESSIONS
        end(web, sessions)
        assert gauge(web, "sessions") == 0
        assert process.memory_info().rss < 1.2 * before


def opened(web):
    response = web.post("/mcp", json=INITIALIZE)
    assert response.status_code == 200
    return {"Mcp-Session-Id": response.headers["mcp-session-id"]}


def end(web, sessions):
    for number, session in enumerate(sessions):
        if number % 20 == 0:
            with web.stream("GET", "/mcp", headers=session):
                pass
        assert web.delete("/mcp", headers=session).status_code in {200, 404}


def gauge(web, name):
    text = web.get("/metrics").text
    return float(text.split(f"\nmemory_bridge_{name} ")[1].split("\n")[0])


def test_calls_without_a_session_leave_no_memory_behind(server, web):
    process = psutil.Process(server.process.pid)
    for _ in range(WARM_UP):
        assert web.post("/mcp", json=CALL, headers=NAMES).status_code == 200
    before = process.memory_info().rss
    for _ in range(1_000):
        web.post("/mcp", json=CALL, headers=NAMES)
    assert process.memory_info().rss < 1.2 * before


def test_connections_that_come_and_go_leave_nothing_open(server, web):
    process = psutil.Process(server.process.pid)
    assert web.get("/healthz").status_code == 200
    before = process.num_fds()
    for _ in range(1_000):
        socket.create_connection(("127.0.0.1", server.port), SECONDS).close()
    until = time.monotonic() + SECONDS
    while process.num_fds() > before + 10:
        assert time.monotonic() < until
        assert web.get("/healthz").status_code == 200


def milliseconds(web, authorized):
    """Of a call, in the middle."""
    times = []
    for _ in range(25):
        begun = time.perf_counter()
        assert web.post("/mcp", json=CALL, headers=NAMES | authorized).status_code == 200
        times.append((time.perf_counter() - begun) * 1000)
    return statistics.median(times)


def test_half_open_connections_do_not_slow_others(server, web):
    """Each has sent all of a request but its last bytes; who is not slowed has another token."""
    grant = {"name": "other", "scopes": ["read"]}
    secret = web.post("/api/v1/tokens", json=grant).json()["secret"]
    other = partial(milliseconds, web, {"Authorization": f"Bearer {secret}"})
    usual = other()
    said = raw("/mcp", json.dumps(CALL).encode(), *(f"{n}: {v}" for n, v in JSON.items()))
    with ExitStack() as stack:
        for _ in range(HALF_OPEN):
            connection = socket.create_connection(("127.0.0.1", server.port), SECONDS)
            stack.enter_context(connection).sendall(said[:-5])
        assert other() < 5 * usual + 50
    assert other() < 5 * usual + 50


def raw(path, body, *fields):
    head = (f"POST {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {TOKEN}", *fields)
    return "\r\n".join([*head, f"Content-Length: {len(body)}", "", ""]).encode() + body


def test_requests_that_do_not_wait_for_answers_are_answered_in_order(server):
    fields = [f"{name}: {value}" for name, value in (JSON | NAMES | ACCEPT).items()]
    said = b"".join(
        raw("/mcp", json.dumps(CALL | {"id": f"n{number}"}).encode(), *fields)
        for number in range(PIPELINED)
    )
    with socket.create_connection(("127.0.0.1", server.port), SECONDS) as connection:
        threading.Thread(target=connection.sendall, args=[said], daemon=True).start()
        heard = b""
        while heard.count(b'"jsonrpc"') < PIPELINED:
            heard += connection.recv(65536)
    places = [heard.index(b'"id":"n%d"' % number) for number in range(PIPELINED)]
    assert places == sorted(places)


COMPRESSED = gzip.compress(json.dumps(CALL).encode())


@pytest.mark.parametrize("coding", ["gzip", "br", "identity, gzip", "none"])
@pytest.mark.parametrize("path", ["/mcp", "/messages?session_id=x", "/api/v1/search"])
def test_a_compressed_body_is_no_message_and_nothing_unpacks_it(web, coding, path):
    bomb = gzip.compress(bytes(50 * MB))
    for body in (COMPRESSED, bomb):
        response = web.post(path, content=body, headers=NAMES | {"Content-Encoding": coding})
        assert response.status_code in {400, 404, 422}, response.text


BOMBS = {
    "a thousand headers": {f"X-{number}": "a" for number in range(1_000)},
    "one long header": {"X-Long": "a" * 30_000},
    "a cookie of many": {"Cookie": "; ".join(f"a{number}=b" for number in range(1_000))},
    "many kinds to accept": {"Accept": ",".join(["text/html;q=0.1"] * 1_500)},
    "a long trace": {"baggage": ",".join(f"a{number}=b" for number in range(1_000))},
    "a long session": {"Mcp-Session-Id": "a" * 20_000},
    "a long name": {"Mcp-Name": "=?base64?" + "a" * 20_000 + "?="},
    "a long token": {"Authorization": "Bearer mb_" + "a" * 20_000},
}


@pytest.mark.parametrize("headers", BOMBS.values(), ids=BOMBS)
def test_headers_without_measure_are_refused_or_passed_over_at_once(web, headers):
    begun = time.perf_counter()
    response = web.post("/mcp", json=CALL, headers=NAMES | headers)
    assert response.status_code in {200, 400, 401, 404, 406, 431}
    assert time.perf_counter() - begun < 2
    assert web.post("/mcp", json=CALL, headers=NAMES).status_code == 200


QUERIES = {
    "many names": "&".join(f"a{number}=b" for number in range(3_000)),
    "one name many times": "&".join(["tags=a"] * 3_000),
    "no end of percents": "key=" + "%" * 9_000,
    "a long key": "key=" + "a" * 20_000,
    "a long cursor": "cursor=" + "a" * 20_000,
}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
@pytest.mark.parametrize("path", ["fact", "facts", "events", "events/stream"])
def test_queries_without_measure_are_refused_at_once(web, path, query):
    begun = time.perf_counter()
    response = web.get(f"/api/v1/{path}?{query}")
    assert response.status_code in {400, 422}, response.text
    assert len(response.text) < 2_000
    assert time.perf_counter() - begun < 2


def test_a_length_that_is_not_kept_is_not_waited_for_by_others(server, web):
    body = json.dumps(CALL).encode()
    said = raw("/mcp", body + b" ", *(f"{name}: {it}" for name, it in (JSON | NAMES).items()))
    with socket.create_connection(("127.0.0.1", server.port), SECONDS) as connection:
        connection.sendall(said[:-1])
        for _ in range(20):
            assert web.post("/mcp", json=CALL, headers=NAMES).status_code == 200
        connection.sendall(b" ")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
