"""The server as a stdio client starts it: the process, its pipes and what goes wrong on them."""

import json
import signal
import sys
import time

import psutil
import pytest
from mcp import Client, StdioServerParameters, stdio_client

from gateway_serving import SECONDS, command, environment, stdio_server

LAST_ANSWERS_SECONDS = 4.0
LIMIT_SECONDS = 1.0
LIMIT_BYTES = 50 * 1024 * 1024
IDLE_BYTES = 130 * 1024 * 1024


@pytest.fixture
def server(tmp_path):
    with stdio_server(tmp_path / "memory.db") as server:
        server.initialize()
        yield server


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28", "auto"])
async def test_the_official_client_is_served_in_both_eras(tmp_path, mode):
    parameters = StdioServerParameters(
        command=sys.executable, args=command(str(tmp_path / "memory.db"))[1:], env=environment()
    )
    async with Client(stdio_client(parameters), mode=mode) as client:
        await client.call_tool("memory_set", {"key": "k", "value": "v"})
        read = await client.call_tool("memory_get", {"key": "k"})
    assert read.structured_content["fact"]["value"] == "v"


BROKEN = {
    "a cut line": b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"na',
    "invalid UTF-8": b'{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"a":"\xff\xfe"}}',
    "a lone surrogate": (
        b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"memory_set",'
        b'"arguments":{"key":"k","value":"\\ud800"}}}'
    ),
    "8 MB": (
        b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"memory_set",'
        b'"arguments":{"key":"k","value":"' + b"x" * 8_000_000 + b'"}}}'
    ),
    "8 MB with its id at the end": (
        b'{"method":"tools/call","params":{"name":"memory_set","arguments":{"key":"k","value":"'
        + b"x" * 8_000_000
        + b'"}},"jsonrpc":"2.0","id":7}'
    ),
    "no message": b'{"jsonrpc":"2.0","id":7}',
}


@pytest.mark.parametrize("line", BROKEN.values(), ids=BROKEN)
def test_a_line_that_cannot_be_read_is_answered_and_the_server_goes_on(server, line):
    before = psutil.Process(server.process.pid).memory_info().rss
    server.say(line)
    said = time.monotonic()
    answer = server.answer()
    assert time.monotonic() - said < LIMIT_SECONDS
    assert answer["id"] == 7
    assert answer["error"]["code"] in {-32700, -32600}
    server.call(8, "memory_get", key="k")
    assert server.answer()["result"]["structuredContent"] == {"found": False, "fact": None}
    assert psutil.Process(server.process.pid).memory_info().rss - before < LIMIT_BYTES


def test_a_batch_and_a_line_of_noise_are_answered_without_an_id(server):
    for line in (b"[]", b"noise", b'"text"'):
        server.say(line)
        answer = server.answer()
        assert answer["id"] is None
        assert "error" in answer


def test_empty_lines_are_passed_over(server):
    server.say(b"\n\r\n  ")
    server.request(1, "ping")
    assert server.answer() == {"jsonrpc": "2.0", "id": 1, "result": {}}


def test_twenty_writes_in_flight_are_all_kept(server):
    for number in range(20):
        server.call(number + 1, "memory_set", key=f"k{number}", value="v")
    answers = [server.answer() for _ in range(20)]
    assert {answer["id"] for answer in answers} == set(range(1, 21))
    server.call(99, "memory_list", limit=100)
    facts = server.answer()["result"]["structuredContent"]["facts"]
    assert {fact["key"] for fact in facts} == {f"k{number}" for number in range(20)}


def test_what_was_asked_before_the_input_ended_is_answered_and_the_server_ends_well(server):
    for number in range(20):
        server.call(number + 1, "memory_set", key=f"k{number}", value="v")
    answers = server.close()
    assert {answer["id"] for answer in answers if "result" in answer} == set(range(1, 21))
    assert server.process.returncode == 0


def test_the_end_of_the_input_ends_streams_and_does_not_wait_for_what_was_cancelled(tmp_path):
    envelope = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    with stdio_server(tmp_path / "memory.db", MCP_ENABLE_DEMO_TOOLS="1") as server:
        listening = {"resourcesListChanged": True}
        server.request(1, "subscriptions/listen", _meta=envelope, notifications=listening)
        assert server.answer()["method"] == "notifications/subscriptions/acknowledged"
        server.request(2, "tools/call", _meta=envelope, name="lock_hold", arguments={"seconds": 1})
        cancelled = {"method": "notifications/cancelled", "params": {"requestId": 2}}
        server.say(json.dumps({"jsonrpc": "2.0"} | cancelled).encode())
        ended = time.monotonic()
        assert [answer["id"] for answer in server.close()] == [1]
        assert time.monotonic() - ended < LAST_ANSWERS_SECONDS
        assert server.process.returncode == 0


def test_sigterm_lets_the_calls_under_way_be_answered(tmp_path):
    with stdio_server(tmp_path / "memory.db", MCP_ENABLE_DEMO_TOOLS="1") as server:
        server.initialize()
        server.call(1, "lock_hold", seconds=1)
        server.request(2, "ping")
        assert server.answer()["id"] == 2
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(SECONDS)
        assert [answer["id"] for answer in server.close()] == [1]
        assert server.process.returncode == 0


def test_stdout_carries_nothing_but_json_rpc(tmp_path):
    with stdio_server(tmp_path / "memory.db", MCP_LOG_LEVEL="debug") as server:
        server.initialize()
        server.call(1, "memory_set", key="k", value="the secret value")
        server.say(b"noise")
        answers = [server.answer(), server.answer(), *server.close()]
        assert all(answer["jsonrpc"] == "2.0" for answer in answers)
        assert b"the secret value" not in b"".join(server.errors)


def test_the_client_is_known_by_its_introduction_or_by_the_setting(tmp_path):
    for settings, name in (({}, "raw"), ({"MCP_CLIENT_ID": "laptop"}, "laptop")):
        with stdio_server(tmp_path / "memory.db", **settings) as server:
            server.initialize(client="raw")
            server.call(1, "memory_set", key="k", value="v")
            fact = server.answer()["result"]["structuredContent"]["fact"]
            assert fact["source_client"] == name


def test_two_servers_on_one_file_see_each_others_writes_at_once(tmp_path):
    database = tmp_path / "memory.db"
    with stdio_server(database) as one, stdio_server(database) as other:
        one.initialize()
        other.initialize()
        one.call(1, "memory_set", key="k", value="from the first")
        one.answer()
        other.call(1, "memory_search", query="first")
        hits = other.answer()["result"]["structuredContent"]["hits"]
        assert hits[0]["fact"]["key"] == "k"


def test_without_embeddings_it_stays_small_and_loads_no_model_package(server):
    server.call(1, "memory_search", query="anything")
    server.answer()
    assert psutil.Process(server.process.pid).memory_info().rss < IDLE_BYTES
    maps = open(f"/proc/{server.process.pid}/maps").read()  # noqa: SIM115, PTH123  a file of /proc
    assert "onnxruntime" not in maps
    assert "tokenizers" not in maps


def test_a_file_that_is_no_memory_is_refused_with_a_sentence(tmp_path):
    (tmp_path / "memory.db").write_text("these are notes, not a database" * 100)
    with stdio_server(tmp_path / "memory.db") as server:
        assert server.close() == []
        assert server.process.returncode == 1
        said = b"".join(server.errors).decode()
    assert said.count("\n") == 1
    assert "cannot be opened" in said
    assert "Traceback" not in said


def test_every_answer_is_one_line(server):
    server.call(1, "memory_set", key="k", value="one\ntwo\u2028three")
    answer = server.answer()
    assert answer["result"]["structuredContent"]["fact"]["value"] == "one\ntwo\u2028three"
    assert json.loads(answer["result"]["content"][0]["text"])["fact"]["key"] == "k"
