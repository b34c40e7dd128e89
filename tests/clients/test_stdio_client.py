"""The raw client over stdio, against a server that behaves as badly as it is told to."""

import json
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from memory_bridge.client import (
    Client,
    ClientError,
    ConnectionLost,
    MCPError,
    ProtocolError,
    ServerDied,
    TimedOut,
    ToolFailed,
    Unreachable,
)
from memory_bridge.stdio import StdioTransport
from waiting import wait_until

SERVER = [sys.executable, str(Path(__file__).with_name("scripted_server.py"))]


@pytest.fixture
def heard():
    return []


@pytest.fixture
def client(heard):
    with Client.stdio(
        SERVER, timeout=10, on_notification=lambda *told: heard.append(told)
    ) as client:
        yield client


def called(client, tool, **arguments):
    return client.call_tool(tool, arguments)["structuredContent"]


def test_the_greeting_is_completed_by_a_notification(client):
    assert client.server["protocolVersion"] == "2025-11-25"
    assert called(client, "heard_so_far")["heard"][0]["method"] == "notifications/initialized"


def test_an_older_version_of_the_server_is_taken():
    with Client.stdio(SERVER, environment={**os.environ, "PEER_VERSION": "2024-11-05"}) as client:
        assert called(client, "echo", a=1) == {"a": 1}


def test_an_unknown_version_is_refused_and_leaves_no_child():
    client = Client.stdio(SERVER, environment={**os.environ, "PEER_VERSION": "1999-01-01"})
    with pytest.raises(ProtocolError, match="1999-01-01"):
        client.open()
    assert not psutil.pid_exists(client._transport.pid)


def test_a_list_is_read_page_by_page(client):
    assert [tool["name"] for tool in client.list_tools()] == ["first", "second"]


def test_twenty_calls_in_flight_each_get_their_own_answer_though_it_comes_in_reverse(client):
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda n: called(client, "hold", of=20, n=n), range(20)))
    assert [answer["n"] for answer in answers] == list(range(20))


def test_notifications_and_requests_of_the_server_come_between(client, heard):
    pong, refusal = called(client, "chatty")["replies"]
    assert pong == {"jsonrpc": "2.0", "id": "p1", "result": {}}
    assert refusal["id"] == 1
    assert refusal["error"]["code"] == -32601
    assert heard == [("notifications/message", {"data": "hello"})]


def test_a_callback_that_fails_does_not_end_the_reading(capsys):
    with Client.stdio(SERVER, on_notification=lambda _method, _params: 1 / 0) as client:
        called(client, "chatty")
        assert called(client, "echo", a=1) == {"a": 1}
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_garbage_on_stdout_is_passed_over(client):
    assert called(client, "garbage", a=1) == {"a": 1}


@pytest.mark.parametrize("text", ["", "é\n\r\u2028😀\x00", "\ud800", "x" * 8_000_000])
def test_any_text_goes_there_and_back(client, text):
    assert called(client, "echo", text=text) == {"text": text}


def test_a_hung_server_cannot_hang_the_client_and_is_told(client):
    with pytest.raises(TimedOut, match=r"within 0\.2 seconds"):
        client.call_tool("hang", timeout=0.2)
    told = called(client, "heard_so_far")["heard"][-1]
    assert told["method"] == "notifications/cancelled"
    assert told["params"]["requestId"] == 2


def test_a_server_that_does_not_read_cannot_block_the_client(client):
    with pytest.raises(TimedOut):
        client.call_tool("deaf", timeout=0.2)
    with pytest.raises(TimedOut):
        client.call_tool("echo", {"text": "x" * 1_000_000}, timeout=0.2)


def test_an_interrupted_call_is_cancelled(client, monkeypatch):
    def interrupted(_message, _deadline):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(client._transport, "request", interrupted)
        with pytest.raises(KeyboardInterrupt):
            client.call_tool("echo")
    assert called(client, "heard_so_far")["heard"][-1]["method"] == "notifications/cancelled"


def test_a_server_that_dies_shows_its_last_twenty_lines(client):
    with pytest.raises(ServerDied, match="exit code 3") as died:
        client.call_tool("die")
    assert died.value.exit_code == 3
    assert died.value.last_words == tuple(f"line {n} é" for n in range(10, 30))
    assert str(died.value).splitlines()[1:] == list(died.value.last_words)


def test_every_call_in_flight_fails_when_the_server_dies_and_so_does_every_later_one(client):
    with ThreadPoolExecutor(5) as pool:
        hung = [pool.submit(client.call_tool, "hang") for _ in range(4)]
        hung.append(pool.submit(client.call_tool, "die"))
        assert all(isinstance(call.exception(10), ServerDied) for call in hung)
    with pytest.raises(ServerDied):
        client.call_tool("echo")


def test_a_server_that_closes_its_output_is_lost(client):
    with pytest.raises(ServerDied, match="closed its output") as died:
        client.call_tool("hang_up")
    assert died.value.exit_code is None


def test_a_server_that_cannot_be_started_is_unreachable():
    with pytest.raises(Unreachable, match="no-such-program"), Client.stdio(["/no-such-program"]):
        pass


def test_a_server_that_ends_at_once_says_why():
    command = [sys.executable, "-c", "raise SystemExit('no room')"]
    with pytest.raises(ServerDied, match="no room"), Client.stdio(command):
        pass


def test_an_error_of_the_protocol_is_not_one_of_a_tool(client):
    with pytest.raises(MCPError, match="No such thing") as failed:
        client.call_tool("error")
    assert (failed.value.code, failed.value.data) == (-32602, {"uri": "x"})


def test_an_error_without_an_id_answers_the_only_call_in_flight(client):
    with pytest.raises(MCPError, match="Cannot read that"):
        client.call_tool("unreadable")


def test_an_answer_of_neither_kind_is_a_fault_of_the_protocol(client):
    with pytest.raises(ProtocolError):
        client.call_tool("nothing")


def test_a_failed_tool_keeps_its_structured_content(client):
    problem = {"code": "conflict", "message": "It is at version 2."}
    with pytest.raises(ToolFailed, match="It is at version 2") as failed:
        client.call_tool("failed", {"problem": problem})
    assert failed.value.structured == {"problem": problem}
    assert failed.value.problem == problem


def test_all_errors_have_one_root():
    for error in (ConnectionLost, MCPError, ProtocolError, ServerDied, TimedOut, ToolFailed):
        assert issubclass(error, ClientError)


def test_closing_leaves_no_child(client):
    pid = client._transport.pid
    client.close()
    assert not psutil.pid_exists(pid)
    with pytest.raises(ConnectionLost):
        client.call_tool("echo")


def test_an_exception_inside_leaves_no_child():
    client = Client.stdio(SERVER)
    with pytest.raises(ZeroDivisionError), client:
        raise ZeroDivisionError
    assert not psutil.pid_exists(client._transport.pid)


def test_a_child_that_neither_end_of_input_nor_a_signal_ends_is_killed():
    with Client(StdioTransport(SERVER, grace_seconds=0.2)) as client:
        called(client, "stubborn")
        pid = client._transport.pid
    assert not psutil.pid_exists(pid)


def test_closing_ends_the_calls_in_flight(client):
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(client.call_tool, "hang")
        wait_until(lambda: client._transport._waiting._waiters)
        client.close()
        assert isinstance(call.exception(5), ConnectionLost)


def test_a_client_that_was_killed_leaves_no_child():
    script = (
        "import sys, time; from memory_bridge.client import Client\n"
        f"client = Client.stdio({SERVER!r}); client.open()\n"
        "print(client._transport.pid, flush=True); time.sleep(60)"
    )
    parent = psutil.Popen([sys.executable, "-c", script], stdout=-1)
    child = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.wait(10)
    wait_until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)


def test_a_client_that_is_not_open_says_so():
    with pytest.raises(ConnectionLost, match="not open"):
        Client.stdio(SERVER).call_tool("echo")


def test_threads_end_with_the_client():
    before = threading.active_count()
    with Client.stdio(SERVER) as client:
        called(client, "echo")
    assert threading.active_count() == before


def test_a_call_with_a_deadline_in_the_past_is_not_sent(client):
    began = time.monotonic()
    with pytest.raises(TimedOut):
        client.call_tool("echo", timeout=0)
    assert time.monotonic() - began < 5


def test_numbers_that_json_cannot_say_are_refused_before_they_are_sent(client):
    with pytest.raises(ValueError, match="not JSON compliant"):
        client.call_tool("echo", {"n": float("nan")})
    assert json.dumps(called(client, "echo", n=1)) == '{"n": 1}'
