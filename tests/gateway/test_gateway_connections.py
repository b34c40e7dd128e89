"""What a connection may cost: how many there are, how long a request takes to come, how large it
is, and how long an answer waits to be taken."""

import json
import resource
import socket
import struct
import threading
import time
from contextlib import ExitStack, contextmanager, suppress

import httpx2
import pytest
import uvicorn

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
from memory_gateway import connections, lingering
from memory_gateway.connections import WebSocketConnection, http_connections

HALF_A_HEAD = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
UPLOAD = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
LARGE = 32 * 1024 * 1024


async def application(scope, receive, send):
    """Answers with the names of the headers; to a POST after its body, and at /large at length. To
    a WebSocket it speaks without end."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while True:
            await send({"type": "websocket.send", "bytes": bytes(65536)})
    while scope["method"] == "POST" and (await receive()).get("more_body", False):
        pass
    body = b" ".join(name for name, _ in scope["headers"])
    body = bytes(LARGE) if scope["path"] == "/large" else body
    length = str(len(body)).encode()
    headers = [(b"content-length", length)]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    for start in range(0, len(body), 65536):
        part = body[start : start + 65536]
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


@contextmanager
def serving(most=100):
    config = uvicorn.Config(
        application,
        http=http_connections(most),
        ws=WebSocketConnection,
        lifespan="off",
        log_level="critical",
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        thread = threading.Thread(target=server.run, args=[[listening]], daemon=True)
        thread.start()
        try:
            yield server, port
        finally:
            server.force_exit = server.should_exit = True
            thread.join(SECONDS)


@contextmanager
def connected(port, *said):
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as connection:
        for part in said:
            connection.sendall(part)
        yield connection


def rest(connection):
    """All that comes until the other side closes, however it does."""
    received = b""
    try:
        while part := connection.recv(65536):
            received += part
    except ConnectionResetError:
        pass
    return received


def answered(connection):
    connection.sendall(GET)
    response = b""
    while not response.endswith(b"\r\n\r\nhost"):
        part = connection.recv(65536)
        assert part, "it was closed"
        response += part
    return response.startswith(b"HTTP/1.1 200 ")


def refusal(response):
    """The status of a refusal that is a JSON-RPC error."""
    head, _, body = response.partition(b"\r\n\r\n")
    assert json.loads(body)["error"]["message"]
    return int(head.split(b" ")[1])


def wait_for(condition):
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.01)


@pytest.fixture
def hurried(monkeypatch):
    """Everything must come soon."""
    for name in ("HEAD_SECONDS", "BODY_SECONDS", "STALLED_SECONDS"):
        monkeypatch.setattr(connections, name, 0.3)


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("said", [b"", b"\r\n", b"\r\n\r\n\r\n"])
def test_a_connection_that_asks_for_nothing_is_closed(said):
    with serving() as (_, port), connected(port, said) as connection:
        assert b" 200 " not in rest(connection)


@pytest.mark.usefixtures("hurried")
def test_a_head_that_does_not_end_is_refused_and_closed():
    with serving() as (_, port), connected(port, HALF_A_HEAD) as connection:
        assert refusal(rest(connection)) == 408


@pytest.mark.usefixtures("hurried")
def test_a_head_that_comes_a_byte_at_a_time_has_no_more_time_for_it():
    with serving() as (_, port), connected(port, HALF_A_HEAD) as connection:
        connection.settimeout(0.02)
        deadline, received = time.monotonic() + SECONDS, b""
        while not received:
            assert time.monotonic() < deadline
            try:
                connection.sendall(b"x")
                received = connection.recv(65536)
            except TimeoutError:
                continue
        assert refusal(received) == 408


@pytest.mark.usefixtures("hurried")
def test_a_second_request_on_a_connection_is_given_no_more_time():
    with serving() as (_, port), connected(port) as connection:
        assert answered(connection)
        connection.sendall(HALF_A_HEAD)
        assert refusal(rest(connection)) == 408


@pytest.mark.usefixtures("hurried")
def test_stray_line_breaks_do_not_keep_a_connection():
    with serving() as (server, port), connected(port) as connection:
        assert answered(connection)
        connection.sendall(b"\r\n")
        wait_for(lambda: not server.server_state.connections)


@pytest.mark.usefixtures("hurried")
def test_a_body_that_does_not_end_is_refused_and_closed():
    with serving() as (_, port), connected(port, UPLOAD, b"1\r\nx\r\n") as connection:
        assert refusal(rest(connection)) == 408


@pytest.mark.usefixtures("hurried")
def test_what_was_refused_early_may_not_go_on_for_ever():
    early = b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n"
    with serving() as (server, port), connected(port, early) as connection:
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
        connection.sendall(b"x")
        wait_for(lambda: not server.server_state.connections)


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: ", 431),
        (UPLOAD + b"2000000\r\n", 413),
        (b"no request\r\n\r\n", 400),
    ],
)
def test_a_client_that_reads_only_after_it_has_sent_all_is_told_why_it_is_refused(
    monkeypatch, said, status
):
    monkeypatch.setattr(lingering, "LINGER_SECONDS", SECONDS)
    with serving() as (server, port):
        with connected(port, said) as connection:
            connection.sendall(b"x" * LARGE)
            assert refusal(rest(connection)) == status
        wait_for(lambda: not server.server_state.connections)


def test_who_goes_on_sending_after_a_refusal_is_cut_off(monkeypatch):
    monkeypatch.setattr(lingering, "LINGER_SECONDS", 0.3)
    with serving() as (server, port), connected(port, b"no request\r\n\r\n"):
        wait_for(lambda: server.server_state.connections)
        wait_for(lambda: not server.server_state.connections)


HANDSHAKE = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("said", [GET.replace(b"/", b"/large", 1), HANDSHAKE], ids=["GET", "WS"])
def test_a_client_that_takes_nothing_is_cut_off(said):
    with serving() as (server, port), connected(port, said):
        wait_for(lambda: server.server_state.connections)
        wait_for(lambda: not server.server_state.connections)


def test_when_too_much_waits_those_who_take_nothing_for_longest_are_cut_off(monkeypatch):
    monkeypatch.setattr(connections, "MOST_UNTAKEN", 1 << 20)
    said = GET.replace(b"/", b"/large", 1)
    with serving() as (server, port), ExitStack() as clients:
        idle = [clients.enter_context(connected(port, said)) for _ in range(50)]
        for client in idle:
            assert client.recv(12) == b"HTTP/1.1 200"
        wait_for(lambda: len(server.server_state.connections) < len(idle) / 2)
        assert len(rest(idle[0])) < LARGE
        with connected(port, said) as reading:
            assert_all_comes(reading)


def assert_all_comes(connection):
    received = 0
    while received < LARGE:
        part = connection.recv(1 << 20)
        assert part, f"cut off after {received} bytes"
        received += len(part)


def test_a_client_that_reads_slowly_but_reads_is_served(monkeypatch):
    monkeypatch.setattr(connections, "STALLED_SECONDS", 1.0)
    with serving() as (_, port), connected(port, GET.replace(b"/", b"/large", 1)) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        assert_all_comes(connection)


@pytest.mark.parametrize("how", ["one long field", "many fields", "a long target", "no end at all"])
def test_a_head_that_is_too_large_is_refused(how):
    part = {
        "one long field": b"GET / HTTP/1.1\r\nX: " + b"x" * 600_000 + b"\r\n\r\n",
        "many fields": b"GET / HTTP/1.1\r\n" + b"X: x\r\n" * 100_000 + b"\r\n",
        "a long target": b"GET /" + b"x" * 600_000 + b" HTTP/1.1\r\n\r\n",
        "no end at all": b"GET / HTTP/1.1\r\nX: " + b"x" * 600_000,
    }[how]
    with serving() as (_, port), connected(port) as connection:
        with suppress(ConnectionError):
            connection.sendall(part)
        response = rest(connection)
    assert not response or refusal(response) == 431  # what was not read resets the connection


def test_fields_behind_a_body_are_not_taken_for_the_head():
    trailers = b"0\r\nAuthorization: Bearer x\r\nX-Late: x\r\n\r\n"
    with serving() as (_, port), connected(port, UPLOAD, trailers) as connection:
        response = connection.recv(65536)
    assert b" 200 " in response
    assert b"transfer-encoding" in response.partition(b"\r\n\r\n")[2]
    assert b"late" not in response
    assert b"authorization" not in response


SMUGGLED = {
    "two lengths": b"Content-Length: 5\r\nContent-Length: 6",
    "a length and chunks": b"Content-Length: 5\r\nTransfer-Encoding: chunked",
    "chunks and something else": b"Transfer-Encoding: chunked, identity",
    "chunks in disguise": b"Transfer-Encoding: xchunked",
    "a blank before the colon": b"Content-Length : 5",
    "a sign": b"Content-Length: +5",
    "a hexadecimal length": b"Content-Length: 0x5",
    "a negative length": b"Content-Length: -5",
    "a folded line": b"X: a\r\n b: c\r\nContent-Length: 5, 6",
    "a bare line feed": b"X: a\nContent-Length: 5",
    "a NUL": b"X: a\0b",
}


@pytest.mark.parametrize("fields", SMUGGLED.values(), ids=SMUGGLED)
def test_a_request_that_two_parsers_could_read_in_two_ways_is_refused_and_closed(fields):
    hidden = b"0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: localhost\r\n\r\n"
    said = b"POST / HTTP/1.1\r\nHost: localhost\r\n" + fields + b"\r\n\r\n" + hidden
    with serving() as (_, port), connected(port, said) as connection:
        assert refusal(rest(connection)) == 400


H2C = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"


def test_an_offer_to_speak_another_protocol_is_passed_over(served):
    body = json.dumps(INITIALIZE).encode()
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        f"Content-Type: application/json\r\nAccept: application/json\r\n"
        f"Content-Length: {len(body)}\r\n"
    ).encode()
    last = head.replace(b"\r\n", b"\r\nConnection: close\r\n", 1) + b"\r\n"
    with connected(served.port, head + H2C + b"\r\n" + body, last + body) as connection:
        responses = rest(connection)
    assert responses.count(b"HTTP/1.1 200 ") == 2
    assert responses.count(b'"serverInfo"') == 2


NO_HANDSHAKES = {
    "a POST": HANDSHAKE.replace(b"GET", b"POST"),
    "a POST with a body": HANDSHAKE.replace(b"GET", b"POST").replace(
        b"Host", b"Content-Length: 2\r\nHost"
    )
    + b"{}",
    "too many fields": HANDSHAKE.replace(b"Host", b"X: x\r\n" * 200 + b"Host"),
    "too long a field": HANDSHAKE.replace(b"Host", b"X: " + b"x" * 9_000 + b"\r\nHost"),
}


@pytest.mark.parametrize("said", NO_HANDSHAKES.values(), ids=NO_HANDSHAKES)
def test_what_is_no_handshake_of_a_websocket_is_refused_and_closed(said):
    with serving() as (server, port), connected(port, said) as connection:
        assert rest(connection)[:13] in {b"HTTP/1.1 400 ", b"HTTP/1.1 405 "}
        wait_for(lambda: not server.server_state.connections)


def test_a_websocket_may_be_asked_for_as_of_a_proxy():
    said = HANDSHAKE.replace(b"GET /", b"GET http://localhost/ws")
    with serving() as (_, port), connected(port, said) as connection:
        assert connection.recv(65536).startswith(b"HTTP/1.1 101 ")


def test_for_one_connection_too_many_the_one_idle_for_longest_is_closed():
    with serving(most=3) as (_, port), ExitStack() as stack:
        first, second, third = (stack.enter_context(connected(port)) for _ in range(3))
        for connection in (first, second, third, first):
            assert answered(connection)
        assert answered(stack.enter_context(connected(port)))
        assert rest(second) == b""
        assert answered(first)
        assert answered(third)


def test_while_all_connections_are_in_use_a_further_one_is_refused():
    with serving(most=3) as (server, port), ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(connected(port, UPLOAD, b"1\r\nx\r\n"))
        wait_for(lambda: len(server.server_state.tasks) == 3)
        response = rest(stack.enter_context(connected(port)))
    assert refusal(response) == 503
    assert b"retry-after: " in response


def test_there_may_be_as_many_connections_as_files_can_be_open():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, before[0]), before[1]))
        most = connections.allow_connections()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert hard == before[1]
    assert most + connections.SPARE_DESCRIPTORS <= soft


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with http_server(tmp_path_factory.mktemp("connections") / "memory.db") as server:
        yield server


@pytest.fixture
def calls(served):
    """Calls a tool in each era and says whether that was answered."""
    call = modern("tools/call", name="memory_set", arguments={"key": "k", "value": "v"})
    names = MODERN | {"Mcp-Method": "tools/call", "Mcp-Name": "memory_set"}
    with httpx2.Client(timeout=SECONDS, headers=AUTHORIZED | ACCEPT) as web:
        yield (
            lambda: (
                web.post(served.url, json=call, headers=names).status_code == 200
                and web.post(served.url, json=INITIALIZE).status_code == 200
            )
        )


@pytest.mark.parametrize("said", [b"", HALF_A_HEAD, b"GET /ws HTTP/1.1\r\nUpgrade: websocket\r\n"])
def test_a_thousand_half_open_connections_delay_nobody(served, calls, said):
    with ExitStack() as stack:
        for number in range(1000):
            stack.enter_context(connected(served.port, said))
            if number % 100 == 0:
                assert calls()
        assert calls()
        with httpx2.Client(timeout=SECONDS) as web:
            assert web.get(served.url.replace("/mcp", "/healthz")).status_code == 200
    assert calls()


def test_bodies_that_come_a_byte_at_a_time_delay_nobody(served, calls):
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
    ).encode()
    with ExitStack() as stack:
        slow = [stack.enter_context(connected(served.port, head)) for _ in range(100)]
        for byte in b'{"jsonrpc"':
            for connection in slow:
                connection.sendall(bytes([byte]))
            assert calls()


@pytest.mark.parametrize("token", [TOKEN, "another-token-0123456789"])
@pytest.mark.parametrize("chunked", [True, False])
@pytest.mark.parametrize("path", ["/mcp", "/messages", "/api/v1/facts"])
def test_a_body_of_five_mebibytes_is_refused_and_the_next_request_served(
    served, calls, token, chunked, path
):
    body = b"[" + b" " * (5 * 1024 * 1024) + b"]"
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    content = iter([body[:70_000], body[70_000:]]) if chunked else body
    with httpx2.Client(timeout=SECONDS, base_url=served.url.removesuffix("/mcp")) as web:
        response = web.post(path, content=content, headers=headers)
    assert response.status_code == (413 if token == TOKEN else 401)
    assert calls()


def test_connections_that_are_reset_leave_nothing_behind(served, calls):
    at_once = struct.pack("ii", 1, 0)
    for said in (b"", HALF_A_HEAD, GET, b"POST /mcp HTTP/1.1\r\nContent-Length: 9\r\n\r\n{"):
        for _ in range(50):
            with connected(served.port, said) as connection:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
    assert calls()
    assert "Traceback" not in "".join(served.errors)
