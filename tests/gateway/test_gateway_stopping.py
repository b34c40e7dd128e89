"""How the server stops: who was asked answers, and nobody who does not listen holds it up."""

import array
import fcntl
import json
import signal
import socket
import sqlite3
import termios
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager

import httpx2
import pytest

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
    stdio_server,
)
from memory_gateway.asgi import StreamToJson
from memory_store.contract import Caller, FactWrite
from memory_store.opening import open_store
from memory_store.settings import StoreSettings
from waiting import wait_until

SHUTDOWN_SECONDS = 5.0
CALLER = Caller(principal="local", source_client="tests")


def test_sigterm_ends_it_soon_with_streams_of_both_eras_open(tmp_path):
    with http_server(tmp_path / "memory.db") as server:
        with httpx2.Client(timeout=SECONDS, headers=AUTHORIZED | ACCEPT) as web:
            opened = web.post(server.url, json=INITIALIZE)
            session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
            listen = modern("subscriptions/listen", notifications={"resourcesListChanged": True})
            method = MODERN | {"Mcp-Method": "subscriptions/listen"}
            with (
                web.stream("GET", server.url, headers=session),
                web.stream("POST", server.url, json=listen, headers=method) as stream,
            ):
                assert "acknowledged" in next(stream.iter_text())
                server.process.send_signal(signal.SIGTERM)
                told = time.monotonic()
                server.process.wait(SECONDS)
        assert time.monotonic() - told < SHUTDOWN_SECONDS


def test_what_is_cut_off_at_the_end_is_told_to_come_again_and_is_no_fault(tmp_path):
    begun = (
        f"POST {{path}} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        "Content-Type: application/json\r\nContent-Length: 500\r\n\r\n{{"
    )
    with http_server(tmp_path / "memory.db") as server, ExitStack() as stack:
        callers = [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), SECONDS))
            for _ in range(2)
        ]
        for caller, path in zip(callers, ("/mcp", "/api/v1/facts/many"), strict=True):
            caller.sendall(begun.format(path=path).encode())
        metrics = server.url.replace("/mcp", "/metrics")
        with httpx2.Client(headers=AUTHORIZED, timeout=SECONDS) as web:  # which is the third
            wait_until(lambda: "memory_bridge_in_flight 3.0" in web.get(metrics).text)
        code, said = server.stop(signal.SIGTERM)
        heard = [b"".join(iter(lambda it=it: it.recv(65536), b"")) for it in callers]
    assert all(answer.startswith(b"HTTP/1.1 503 Service Unavailable\r\n") for answer in heard)
    assert all(b"whether a write landed is unknown" in answer for answer in heard)
    assert code == 0
    assert "Traceback" not in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_without_a_word_and_with_the_trail_of_reads_written(tmp_path, number):
    database = tmp_path / "memory.db"
    with http_server(database) as server:
        with httpx2.Client(timeout=SECONDS, headers=AUTHORIZED | ACCEPT) as web:
            call = modern("tools/call", name="memory_get", arguments={"key": "k"})
            names = {"Mcp-Method": "tools/call", "Mcp-Name": "memory_get"}
            assert web.post(server.url, json=call, headers=MODERN | names).status_code == 200
        code, said = server.stop(number)
    with closing(open_store(StoreSettings(memory_db=database))) as store:
        events = store.event_list("default", include_reads=True).events

    assert (code, "Traceback" in said) == (0, False)
    assert [event.kind for event in events] == ["get"]


def test_answers_that_nobody_takes_neither_hold_it_up_nor_pass_for_faults(tmp_path):
    database = tmp_path / "memory.db"
    with closing(open_store(StoreSettings(memory_db=database))) as store:
        large = [FactWrite(key=str(number), value="x" * 16_000) for number in range(100)]
        store.fact_set_many(CALLER, large)
    with http_server(database) as server, ExitStack() as clients:
        for _ in range(5):
            client = clients.enter_context(closing(socket.socket()))
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", server.port))
            client.sendall(2 * UNTAKEN.encode())
            assert client.recv(12) == b"HTTP/1.1 200"
        told = time.monotonic()
        code, said = server.stop(signal.SIGTERM)
        assert time.monotonic() - told < SHUTDOWN_SECONDS
    assert code == 0
    assert '"ERROR"' not in said


UNTAKEN = (
    "GET /api/v1/facts?limit=1000 HTTP/1.1\r\nHost: localhost\r\n"
    f"Authorization: Bearer {TOKEN}\r\n\r\n"
)
LEGACY_CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}


def hold(server, era, accept, seconds):
    """Calls for a lock of so many seconds; returns the response."""
    headers = AUTHORIZED | {"Accept": accept}
    arguments = {"seconds": seconds}
    with httpx2.Client(timeout=SECONDS, headers=headers) as web:
        if era == "newer":
            names = MODERN | {"Mcp-Method": "tools/call", "Mcp-Name": "lock_hold"}
            call = modern("tools/call", name="lock_hold", arguments=arguments)
            return web.post(server.url, json=call, headers=names)
        opened = web.post(server.url, json=INITIALIZE)
        session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
        call = LEGACY_CALL | {"params": {"name": "lock_hold", "arguments": arguments}}
        return web.post(server.url, json=call, headers=session)


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


@pytest.mark.parametrize("era", ["handshake", "newer"])
@pytest.mark.parametrize("accept", ["application/json", ACCEPT["Accept"]])
@pytest.mark.parametrize("seconds", [1, 30])
def test_sigterm_lets_http_calls_be_answered_within_the_grace(tmp_path, era, accept, seconds):
    database = tmp_path / "memory.db"
    with (
        http_server(database, MCP_ENABLE_DEMO_TOOLS="1") as server,
        ThreadPoolExecutor(1) as threads,
        held(database) as is_held,
    ):
        calling = threads.submit(hold, server, era, accept, seconds)
        wait_for(is_held)
        told = time.monotonic()
        code, said = server.stop(signal.SIGTERM)
        assert time.monotonic() - told < SHUTDOWN_SECONDS
        response = calling.result(SECONDS)

    result = message(response)["result"]
    assert (code, "Traceback" in said) == (0, False)
    if seconds == 1:
        assert result["structuredContent"]["held_seconds"] >= 1
    else:
        assert result["structuredContent"]["problem"]["code"] == "unavailable"
        assert result["structuredContent"]["problem"]["retryable"]


@pytest.mark.parametrize("era", ["handshake", "newer"])
def test_a_response_that_never_comes_has_not_begun(tmp_path, era):
    database = tmp_path / "memory.db"
    with (
        http_server(database, MCP_ENABLE_DEMO_TOOLS="1") as server,
        ThreadPoolExecutor(1) as threads,
        held(database) as is_held,
    ):
        calling = threads.submit(hold, server, era, ACCEPT["Accept"], 30)
        wait_for(is_held)
        server.stop(signal.SIGKILL)
        with pytest.raises(httpx2.RemoteProtocolError, match="without sending a response"):
            calling.result(SECONDS)


def test_sigterm_ends_twenty_idle_streams_at_once_and_without_a_word(tmp_path):
    with http_server(tmp_path / "memory.db") as server, ExitStack() as streams:
        web = streams.enter_context(httpx2.Client(timeout=SECONDS, headers=AUTHORIZED | ACCEPT))
        for _ in range(20):
            opened = web.post(server.url, json=INITIALIZE)
            session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
            streams.enter_context(web.stream("GET", server.url, headers=session))
        told = time.monotonic()
        code, said = server.stop(signal.SIGTERM)

    assert time.monotonic() - told < SHUTDOWN_SECONDS
    assert (code, "Traceback" in said, "ERROR" in said) == (0, False, False)


@pytest.mark.anyio
async def test_a_stream_that_ends_without_an_answer_is_an_error_in_json_rpc():
    sent = []

    async def send(part):
        sent.append(part)

    to_json = StreamToJson(send, 7)
    headers = [(b"content-type", b"text/event-stream")]
    await to_json({"type": "http.response.start", "status": 200, "headers": headers})
    await to_json({"type": "http.response.body", "body": b": ping\r\n\r\n", "more_body": True})
    await to_json({"type": "http.response.body", "body": b""})

    assert sent[0]["status"] == 503
    answer = json.loads(sent[1]["body"])
    assert answer["id"] == 7
    assert answer["error"]["message"]


@pytest.mark.parametrize("how", ["SIGTERM", "the end of the input"])
def test_a_client_that_does_not_read_cannot_keep_the_server_alive(tmp_path, how):
    database = tmp_path / "memory.db"
    with closing(open_store(StoreSettings(memory_db=database))) as store:
        store.fact_set(CALLER, FactWrite(key="large", value="x" * 16_000))
    with stdio_server(database, reading=False) as server:
        server.introduce()
        for number in range(1, 30):
            server.call(number, "memory_get", key="large")
        wait_for(lambda: is_full(server.process.stdout))
        told = time.monotonic()
        if how == "SIGTERM":
            server.process.send_signal(signal.SIGTERM)
        else:
            server.process.stdin.close()
        server.process.wait(SECONDS)
        assert time.monotonic() - told < SHUTDOWN_SECONDS


def is_full(pipe):
    """Whether no more than a part of a message fits into a pipe."""
    waiting = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, waiting)
    return waiting[0] > fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ) - 4096


@contextmanager
def locked(database):
    with closing(open_store(StoreSettings(memory_db=database))):
        pass
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


def write_three(server):
    server.initialize()
    for number in range(1, 4):
        server.call(number, "memory_set", key=f"k{number}", value="v")
    server.request(9, "ping")
    assert server.answer()["id"] == 9


def codes(answers):
    problems = {
        answer["id"]: answer["result"]["structuredContent"]["problem"] for answer in answers
    }
    assert all(problem["retryable"] for problem in problems.values())
    return {number: problem["code"] for number, problem in problems.items()}


def test_at_the_end_of_the_input_a_write_waits_for_the_lock_as_long_as_ever(tmp_path):
    database = tmp_path / "memory.db"
    with locked(database), stdio_server(database, MCP_SQLITE_BUSY_TIMEOUT="4500") as server:
        write_three(server)
        assert codes(server.close()) == {1: "busy", 2: "busy", 3: "busy"}
        assert server.process.returncode == 0


@pytest.mark.parametrize("embeddings", ["on", "off"])
def test_sigterm_answers_writes_that_wait_for_a_lock_which_nobody_lets_go(tmp_path, embeddings):
    database = tmp_path / "memory.db"
    settings = {"MCP_SQLITE_BUSY_TIMEOUT": "600000", "MCP_EMBEDDINGS": embeddings}
    with locked(database), stdio_server(database, **settings) as server:
        write_three(server)
        server.call(4, "memory_get", key="k")
        assert server.answer()["id"] == 4
        told = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(SECONDS)
        assert time.monotonic() - told < SHUTDOWN_SECONDS
        assert codes(server.close()) == {1: "busy", 2: "busy", 3: "busy"}
        assert server.process.returncode == 0


def test_a_client_that_leaves_while_the_model_loads_is_no_fault(tmp_path):
    for number in range(4):
        with stdio_server(tmp_path / "memory.db", MCP_EMBEDDINGS="on") as server:
            server.initialize()
            server.call(1, "memory_set", key=f"k{number}", value="v")
            assert server.answer()["id"] == 1
            server.close()
            assert server.process.returncode == 0, b"".join(server.errors)
    with closing(open_store(StoreSettings(memory_db=tmp_path / "memory.db"))) as store:
        assert len(store.fact_list(CALLER, "default").facts) == 4
