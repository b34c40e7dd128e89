"""MCP over a WebSocket: who gets in, both eras, what is no message, and how it ends."""

import json
import signal
import socket
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress

import httpx2
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from gateway_serving import AUTHORIZED, ENVELOPE, INITIALIZE, SECONDS, TOKEN, http_server, modern
from memory_gateway.subscriptions import MOST_OF_ONE, MOST_STREAMS

MOST = 3
MOST_UNDER_WAY = 256
SHUTDOWN_SECONDS = 10.0  # 5 are promised; the rest is for a busy machine
LARGEST = 4 * 1024 * 1024
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
SETTINGS = {
    "MCP_ENABLE_DEMO_TOOLS": "1",
    "MCP_ALLOWED_ORIGINS": "https://app.example",
    "MCP_ALLOWED_HOSTS": "box.example.net",
}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with http_server(tmp_path_factory.mktemp("ws") / "memory.db", **SETTINGS) as server:
        yield server


@contextmanager
def opened(server, headers=AUTHORIZED, **options):
    url = f"ws://127.0.0.1:{server.port}/ws"
    with connect(url, additional_headers=headers, open_timeout=SECONDS, **options) as connection:
        yield connection


def ask(connection, said):
    """The answer to a message; what comes before it is passed by."""
    connection.send(said if isinstance(said, str | bytes) else json.dumps(said))
    while True:
        heard = json.loads(connection.recv(SECONDS))
        if "method" not in heard:
            return heard


def request(number, method, era="legacy", **params):
    meta = {"_meta": ENVELOPE} if era == "newer" else {}
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params | meta}


def call(number, tool, era="legacy", **arguments):
    return request(number, "tools/call", era, name=tool, arguments=arguments)


def begin(connection, era="legacy"):
    if era == "legacy":
        ask(connection, INITIALIZE)
        connection.send(json.dumps(INITIALIZED))


REFUSED = {
    "no token": ({}, 401),
    "a wrong token": ({"Authorization": "Bearer another-token-0123456789"}, 401),
    "a cookie": ({"Cookie": f"token={TOKEN}"}, 401),
    "the token as a subprotocol": ({"Sec-WebSocket-Protocol": f"mcp, bearer.{TOKEN}"}, 401),
    "a foreign origin": (AUTHORIZED | {"Origin": "https://evil.example"}, 403),
    "no origin at all": (AUTHORIZED | {"Origin": "null"}, 403),
    "a foreign host": (AUTHORIZED | {"Host": "evil.example"}, 421),
}


@pytest.mark.parametrize(("headers", "status"), REFUSED.values(), ids=REFUSED)
def test_who_may_not_come_in_hears_why_before_the_handshake(served, headers, status):
    lines = {"Host": "localhost"} | headers
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    with socket.create_connection(("127.0.0.1", served.port), timeout=SECONDS) as connection:
        connection.sendall(
            f"GET /ws?token={TOKEN} HTTP/1.1\r\n{head}Connection: Upgrade\r\nUpgrade: websocket\r\n"
            "Sec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
        )
        response = b"".join(iter(lambda: connection.recv(4096), b""))
    assert response.startswith(f"HTTP/1.1 {status} ".encode())
    assert json.loads(response.partition(b"\r\n\r\n")[2])["error"]["message"]
    assert TOKEN.encode() not in response
    assert TOKEN not in "".join(served.errors)


@pytest.mark.parametrize("origin", ["https://app.example", "http://localhost:3000", None])
def test_a_page_that_may_and_a_client_that_is_no_page_come_in(served, origin):
    with opened(served, origin=origin) as connection:
        assert "result" in ask(connection, INITIALIZE)


@pytest.mark.parametrize(
    ("offered", "chosen"), [(["mcp"], "mcp"), (["other", "mcp"], "mcp"), (None, None)]
)
def test_the_subprotocol_is_mcp(served, offered, chosen):
    with opened(served, subprotocols=offered) as connection:
        assert connection.subprotocol == chosen


def test_plain_http_hears_that_this_is_for_websockets(served):
    with socket.create_connection(("127.0.0.1", served.port), timeout=SECONDS) as connection:
        head = f"GET /ws HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        connection.sendall(f"{head}Connection: close\r\n\r\n".encode())
        assert connection.recv(4096).startswith(b"HTTP/1.1 426 ")


@pytest.mark.parametrize("era", ["legacy", "newer"])
def test_tools_resources_and_prompts_are_served_in_both_eras(served, era):
    key = f"by/{era}"
    with opened(served) as connection:
        begin(connection, era)
        written = ask(connection, call(2, "memory_set", era, key=key, value="v" * 10_000))
        read = ask(connection, request(3, "resources/read", era, uri=f"memory://default/{key}"))
        prompts = ask(connection, request(4, "prompts/list", era))
        unknown = ask(connection, request(5, "nothing/here", era))
    fact = written["result"]["structuredContent"]["fact"]
    assert (fact["principal"], fact["self_reported"]) == ("installation", True)
    assert read["result"]["contents"][0]["text"] == "v" * 10_000
    assert {it["name"] for it in prompts["result"]["prompts"]} == {"recall", "handoff"}
    assert (unknown["id"], unknown["error"]["code"]) == (5, -32601)


@pytest.mark.parametrize("era", ["legacy", "newer"])
def test_a_subscriber_hears_of_writes_that_come_another_way(served, era):
    uri = f"memory://default/heard-{era}"
    with opened(served) as listening, opened(served) as writing:
        begin(listening, era)
        if era == "legacy":
            ask(listening, request(2, "resources/subscribe", uri=uri))
        else:
            wanted = {"resourceSubscriptions": [uri]}
            listening.send(
                json.dumps(request(2, "subscriptions/listen", era, notifications=wanted))
            )
            assert "acknowledged" in listening.recv(SECONDS)
        ask(writing, call(1, "memory_set", "newer", key=f"heard-{era}", value="v"))
        while "resources/updated" not in (heard := listening.recv(SECONDS)):
            pass
        assert uri in heard


NO_MESSAGES = {
    "cut": ('{"jsonrpc":"2.0","id":7,"met', -32700),
    "nothing": ("", -32700),
    "a batch": ("[]", -32600),
    "no method": ('{"jsonrpc":"2.0","id":7}', -32600),
    "bytes": (b"\xff\xfe", -32700),
    "deep": ('{"jsonrpc":"2.0","id":7,"method":"x","params":' + '{"a":' * 50_000, -32700),
}


@pytest.mark.parametrize("era", ["legacy", "newer"])
def test_what_is_no_message_is_answered_and_the_connection_goes_on(served, era):
    with opened(served) as connection:
        begin(connection, era)
        for said, code in NO_MESSAGES.values():
            assert ask(connection, said)["error"]["code"] == code
        assert "result" in ask(connection, request(8, "tools/list", era))


def test_a_message_in_bytes_is_as_good_as_one_in_text(served):
    with opened(served) as connection:
        assert "result" in ask(connection, json.dumps(INITIALIZE).encode())


def test_a_message_that_is_too_large_ends_the_connection_with_1009(served):
    with opened(served, max_size=None) as connection:
        begin(connection)
        largest = call(2, "memory_get", key="k", x="y" * (LARGEST - 1_000))
        assert ask(connection, largest)["id"] == 2
        with pytest.raises(ConnectionClosed) as closed:
            ask(connection, call(3, "memory_get", key="k" * LARGEST))
    assert closed.value.rcvd.code == 1009


def test_a_client_that_sends_all_of_a_large_message_before_it_reads_is_told_of_1009(served):
    with opened(served, max_size=None) as connection:
        begin(connection)
        frame = bytes([0x82, 0xFF]) + (3 * LARGEST).to_bytes(8) + bytes(4 + 3 * LARGEST)
        with suppress(OSError):  # by then it may have been closed
            connection.socket.sendall(frame)
        with pytest.raises(ConnectionClosed) as closed:
            connection.recv(SECONDS)
    assert closed.value.rcvd.code == 1009


def test_requests_beyond_what_a_connection_may_have_under_way_are_refused(served):
    with opened(served) as connection:
        begin(connection)
        connection.send(json.dumps(call(2, "lock_hold", seconds=3)))
        for number in range(3, 303):
            connection.send(json.dumps(call(number, "memory_set", key=f"k{number}", value="v")))
        answers = []
        while len(answers) < 301:
            heard = json.loads(connection.recv(SECONDS))
            answers += [heard] if "id" in heard else []
    assert {answer["id"] for answer in answers} == set(range(2, 303))
    refused = [answer for answer in answers if "error" in answer]
    assert len(refused) == 301 - MOST_UNDER_WAY
    assert all("under way" in answer["error"]["message"] for answer in refused)


def test_an_id_that_is_under_way_is_refused_and_free_again_when_it_was_answered(served):
    with opened(served) as connection:
        begin(connection)
        connection.send(json.dumps(call(2, "lock_hold", seconds=1)))
        assert "under way" in ask(connection, call(2, "memory_get", key="k"))["error"]["message"]
        assert "held_seconds" in str(json.loads(connection.recv(SECONDS)))
        assert "result" in ask(connection, call(2, "memory_get", key="k"))


def test_one_token_cannot_take_the_streams_of_all(served):
    def listens(connection, number):
        wanted = {"resourcesListChanged": True}
        request_ = request(number, "subscriptions/listen", "newer", notifications=wanted)
        connection.send(json.dumps(request_))
        return "error" not in json.loads(connection.recv(SECONDS))

    secret = api(served, "POST", "/tokens", {"name": "greedy", "scopes": ["read"]})["secret"]
    with ExitStack() as connections:
        greedy = [
            connections.enter_context(opened(served, {"Authorization": f"Bearer {secret}"}))
            for _ in range(6)
        ]
        granted = [listens(each, number) for number in range(50) for each in greedy]
        assert sum(granted) == MOST_OF_ONE < MOST_STREAMS
        assert listens(connections.enter_context(opened(served)), 1)


def test_a_cancelled_request_is_not_waited_for_at_the_end(tmp_path):
    with http_server(tmp_path / "memory.db", **SETTINGS) as server, opened(server) as connection:
        begin(connection)
        connection.send(json.dumps(call(2, "lock_hold", seconds=30)))
        cancel = {"requestId": 2}
        said = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel}
        connection.send(json.dumps(said))
        assert ask(connection, request(3, "ping"))["id"] == 3
        told = time.monotonic()
        server.stop(signal.SIGTERM)
        assert time.monotonic() - told < SHUTDOWN_SECONDS


@contextmanager
def held(database):
    """The write lock, taken by a call: gives whether it is held."""
    with closing(sqlite3.connect(database, isolation_level=None, timeout=0)) as connection:

        def is_held():
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return True
            connection.execute("ROLLBACK")
            return False

        yield is_held


def wait_for(condition):
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.01)


@pytest.mark.parametrize("era", ["legacy", "newer"])
@pytest.mark.parametrize(("seconds", "words"), [(1, '"held_seconds"'), (30, "The server is stop")])
def test_sigterm_answers_what_is_under_way_and_then_closes(tmp_path, era, seconds, words):
    database = tmp_path / "memory.db"
    with (
        http_server(database, **SETTINGS) as server,
        opened(server) as connection,
        held(database) as is_held,
        ThreadPoolExecutor(1) as threads,
    ):
        begin(connection, era)
        connection.send(json.dumps(call(2, "lock_hold", era, seconds=seconds)))
        wait_for(is_held)
        stopping = threads.submit(server.stop, signal.SIGTERM)
        told = time.monotonic()
        assert words in connection.recv(SECONDS)
        with pytest.raises(ConnectionClosed) as closed:
            connection.recv(SECONDS)
        code, said = stopping.result(SECONDS)
        assert time.monotonic() - told < SHUTDOWN_SECONDS
    assert closed.value.rcvd.code == 1012
    assert (code, "Traceback" in said, '"ERROR"' in said) == (0, False, False)


@pytest.mark.parametrize("era", ["legacy", "newer"])
def test_sigterm_ends_fifty_connections_that_listen(tmp_path, era):
    with http_server(tmp_path / "memory.db") as server, ExitStack() as stack:
        for _ in range(50):
            connection = stack.enter_context(opened(server))
            begin(connection, era)
            if era == "newer":
                wanted = {"resourcesListChanged": True}
                listen = request(2, "subscriptions/listen", era, notifications=wanted)
                connection.send(json.dumps(listen))
                assert "acknowledged" in connection.recv(SECONDS)
        told = time.monotonic()
        code, said = server.stop(signal.SIGTERM)
        assert time.monotonic() - told < SHUTDOWN_SECONDS
    assert (code, "Traceback" in said, '"ERROR"' in said) == (0, False, False)


def test_a_client_that_does_not_read_delays_nobody_and_loses_nothing(served):
    with opened(served) as writing, opened(served, max_queue=1) as stalled:
        ask(writing, call(1, "memory_set", "newer", key="large", value="x" * 16_000))
        begin(stalled)
        for number in range(2, 202):
            stalled.send(json.dumps(call(number, "memory_get", key="large")))
        for number in range(2, 52):
            assert ask(writing, call(number, "memory_get", "newer", key="large"))["id"] == number
        awaited = set(range(2, 202))
        while awaited:
            awaited.discard(json.loads(stalled.recv(SECONDS)).get("id"))


def test_connections_count_as_sessions(tmp_path):
    with (
        http_server(tmp_path / "memory.db", MCP_MAX_SESSIONS=str(MOST)) as server,
        ExitStack() as stack,
    ):
        connections = [stack.enter_context(opened(server)) for _ in range(MOST)]
        with pytest.raises(InvalidStatus) as refused, opened(server):
            pass
        assert refused.value.response.status_code == 503
        assert int(refused.value.response.headers["retry-after"]) > 0
        connections[0].close()

        def is_let_in():
            try:
                with opened(server) as connection:
                    return "result" in ask(connection, INITIALIZE)
            except InvalidStatus:
                return False

        wait_for(is_let_in)


def test_a_quiet_connection_is_pinged_before_a_proxy_would_drop_it(served):
    with opened(served, ping_interval=None) as connection:
        begin(connection)
        pinged = []
        receive = connection.protocol.receive_data
        connection.protocol.receive_data = lambda data: (pinged.append(data), receive(data))
        wait_for(lambda: any(part[:1] == b"\x89" for part in pinged))


def test_messages_are_read_no_faster_than_the_rate_of_a_token_allows(tmp_path):
    settings = {"MCP_RATE_PER_SECOND": "20", "MCP_RATE_BURST": "5"}
    with http_server(tmp_path / "memory.db", **settings) as server, opened(server) as connection:
        begin(connection)
        began = time.monotonic()
        for number in range(2, 22):
            connection.send(json.dumps(request(number, "ping")))
        assert [json.loads(connection.recv(SECONDS))["id"] for _ in range(20)] == [*range(2, 22)]
        assert time.monotonic() - began > 0.5


@pytest.mark.parametrize("era", ["legacy", "newer"])
def test_a_revoked_token_ends_its_connection(served, era):
    name = f"ws-{era}"
    secret = api(served, "POST", "/tokens", {"name": name, "scopes": ["read"]})["secret"]
    with opened(served, {"Authorization": f"Bearer {secret}"}) as connection:
        begin(connection, era)
        assert "result" in ask(connection, request(2, "tools/list", era))
        refused = ask(connection, call(3, "memory_set", era, key="k", value="v"))
        assert refused["result"]["structuredContent"]["problem"]["code"] == "forbidden"
        api(served, "DELETE", f"/tokens/{name}")
        with pytest.raises(ConnectionClosed) as closed:
            connection.recv(SECONDS)
    assert closed.value.rcvd.code == 1008


def api(server, method, path, body=None):
    url = server.url.replace("/mcp", f"/api/v1{path}")
    response = httpx2.request(method, url, json=body, headers=AUTHORIZED, timeout=SECONDS)
    assert response.is_success, response.text
    return response.json() if response.content else None


def test_a_modern_connection_refuses_the_handshake_and_the_other_way_round(served):
    with opened(served) as connection:
        assert "result" in ask(connection, modern("tools/list"))
        assert ask(connection, INITIALIZE | {"id": 2})["error"]["code"] == -32022
    with opened(served) as connection:
        begin(connection)
        assert ask(connection, modern("tools/list"))["error"]["code"] == -32600
