"""What the stub does with a call when the server behind it fails: repeated where that is safe."""

import socket
import threading

import pytest

from clients.faults import failing, hang_up
from clients.stub_process import stub
from ports import free_port
from waiting import wait_until

KEYED = {"type": "object", "properties": {"key": {}, "value": {}, "idempotency_key": {}}}
MANY = {"type": "object", "properties": {"writes": {"type": "array", "items": KEYED}}}
TOOLS = [
    {"name": "memory_set", "inputSchema": KEYED},
    {"name": "memory_set_many", "inputSchema": MANY},
    {"name": "memory_get", "inputSchema": {}, "annotations": {"readOnlyHint": True}},
    {"name": "plain_write", "inputSchema": {"properties": {"client_id": {}}}},
]
QUICK = ["--timeout", "3"]


@pytest.fixture
def peer(peer):
    peer.answers["tools/list"] = lambda exchange: exchange.result({"tools": TOOLS})
    return peer


@pytest.fixture
def connected(peer):
    """Begins a conversation through a stub with options."""

    def connect(*options):
        context = stub("--url", peer.url, "--token", "secret", *options)
        mine = context.__enter__()
        contexts.append(context)
        mine.initialize()
        return mine

    contexts = []
    yield connect
    for context in contexts:
        context.__exit__(None, None, None)


def calls(peer, tool):
    sent = [message for _, message in peer.sent("tools/call")]
    return [message for message in sent if message["params"]["name"] == tool]


def arguments(message):
    return message["params"]["arguments"]


def test_a_write_that_broke_off_is_repeated_under_one_key(peer, connected):
    peer.answers["memory_set"] = failing(2)
    host = connected()

    host.call(7, "memory_set", key="a", value="b")

    answer = host.heard()
    assert answer["id"] == 7
    first, second, third = calls(peer, "memory_set")
    assert arguments(first) == arguments(second) == arguments(third)
    assert arguments(first)["idempotency_key"]
    assert len({message["id"] for message in (first, second, third)}) == 3


def test_every_write_has_a_key_of_its_own_and_the_hosts_is_kept(peer, connected):
    host = connected()
    host.call(1, "memory_set", key="a", value="b")
    host.call(2, "memory_set", key="a", value="b")
    host.call(3, "memory_set", key="a", value="b", idempotency_key="mine")
    for _ in range(3):
        host.heard()

    first, second, third = [arguments(message) for message in calls(peer, "memory_set")]

    assert first["idempotency_key"] != second["idempotency_key"]
    assert third["idempotency_key"] == "mine"


@pytest.mark.parametrize("as_text", [False, True])
def test_each_of_many_writes_has_a_key(peer, connected, as_text):
    peer.answers["memory_set_many"] = failing(1)
    host = connected()
    writes = [{"key": "a", "value": "1", "idempotency_key": "mine"}, {"key": "b", "value": "2"}]

    host.call(1, "memory_set_many", writes=str(writes).replace("'", '"') if as_text else writes)

    assert "result" in host.heard()
    first, second = [arguments(message)["writes"] for message in calls(peer, "memory_set_many")]
    assert first == second
    assert first[0]["idempotency_key"] == "mine"
    assert first[1]["idempotency_key"].startswith("stub-")


def test_a_write_that_takes_no_key_is_made_once_and_its_fate_is_told(peer, connected):
    peer.answers["plain_write"] = hang_up
    host = connected()

    host.call(1, "plain_write", x=1)

    error = host.heard()["error"]
    assert error["data"] == {"code": "unavailable", "retryable": True}
    assert "unknown" in error["message"]
    assert len(calls(peer, "plain_write")) == 1
    assert arguments(calls(peer, "plain_write")[0]) == {"x": 1}


def test_what_breaks_off_before_a_write_was_sent_does_not_count_as_its_attempt(peer, connected):
    peer.answers["tools/list"] = failing(2)
    host = connected()
    host.call(1, "plain_write", x=1)
    assert "result" in host.heard()
    assert len(calls(peer, "plain_write")) == 1


def test_a_session_that_is_hard_to_renew_does_not_count_as_an_attempt(peer, connected):
    host = connected()
    peer.session = "s2"
    peer.answers["initialize"] = failing(2)
    peer.answers["plain_write"] = lambda exchange: (
        exchange.usual()
        if exchange.headers["Mcp-Session-Id"] == "s2"
        else exchange.refuse(404, -32600, "Session not found")
    )
    host.call(1, "plain_write", x=1)
    assert "result" in host.heard()


def test_a_read_that_broke_off_is_repeated(peer, connected):
    peer.answers["memory_get"] = failing(3)
    host = connected()
    host.call(1, "memory_get", key="a")
    assert host.heard()["result"]["structuredContent"] == {"key": "a"}


def test_no_write_overtakes_one_that_is_repeated_while_reads_go_on(peer, connected):
    let_through = threading.Event()

    def answer(exchange):
        if exchange.message["params"]["arguments"]["value"] == "1" and not let_through.is_set():
            hang_up(exchange)
        else:
            exchange.usual()

    peer.answers["memory_set"] = answer
    host = connected()
    host.request(0, "tools/list")
    host.heard()
    host.call(1, "memory_set", key="a", value="1")
    host.call(2, "memory_set", key="a", value="2")
    host.call(3, "memory_get", key="a")

    assert host.heard()["id"] == 3
    wait_until(lambda: len(calls(peer, "memory_set")) > 1)
    let_through.set()

    assert [host.heard()["id"], host.heard()["id"]] == [1, 2]
    values = [arguments(message)["value"] for message in calls(peer, "memory_set")]
    assert values == sorted(values)


def test_a_server_that_accepts_and_never_answers_ends_in_an_error(peer, connected):
    peer.answers["memory_set"] = lambda _exchange: peer.closing.wait()
    host = connected(*QUICK)

    host.call(1, "memory_set", key="a", value="b")

    error = host.heard()["error"]
    assert "did not answer within 3 seconds" in error["message"]
    assert "unknown" in error["message"]
    assert error["data"]["retryable"] is True
    assert len({arguments(m)["idempotency_key"] for m in calls(peer, "memory_set")}) == 1


def test_a_server_that_is_not_there_ends_in_an_error_that_says_nothing_was_done():
    with stub("--url", f"http://127.0.0.1:{free_port()}", *QUICK) as host:
        host.call(1, "memory_set", key="a", value="b")
        error = host.heard()["error"]
    assert "cannot be reached" in error["message"]
    assert "Nothing was carried out." in error["message"]
    assert error["data"] == {"code": "unavailable", "retryable": True}


def test_calls_wait_for_a_server_that_comes_late(peer):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = taken.getsockname()
    with stub("--url", f"http://127.0.0.1:{address[1]}") as host:
        host.modern(1, "tools/list")
        relay = threading.Thread(target=relay_one, args=(address, peer.server.server_address))
        relay.start()
        assert host.heard()["result"]["tools"] == TOOLS
    relay.join()


def relay_one(address, target):
    """Serves one connection to another address, until either side ends it."""
    with socket.create_server(address) as listening:
        near, _ = listening.accept()
    with near, socket.create_connection(target) as far:
        thread = threading.Thread(target=pump, args=(far, near))
        thread.start()
        pump(near, far)
        thread.join()


def pump(source, sink):
    while data := source.recv(65536):
        sink.sendall(data)
    sink.shutdown(socket.SHUT_RDWR)


def test_a_queue_that_is_full_refuses_with_an_error_that_may_be_retried(peer, connected):
    let_through = threading.Event()

    def answer(exchange):
        let_through.wait()
        exchange.usual()

    peer.answers["memory_set"] = answer
    host = connected("--queue", "2")

    for number in range(1, 4):
        host.call(number, "memory_set", key="a", value=str(number))

    refused = host.heard()
    assert refused["id"] == 3
    assert refused["error"]["data"] == {"code": "busy", "retryable": True}
    assert "Nothing was carried out." in refused["error"]["message"]
    let_through.set()
    assert [host.heard()["id"], host.heard()["id"]] == [1, 2]


def test_a_refused_token_is_told_at_once_and_not_tried_again(peer, connected):
    peer.answers["memory_set"] = lambda exchange: exchange.refuse(401, message="bad token")
    host = connected()

    host.call(1, "memory_set", key="a", value="b")

    error = host.heard()["error"]
    assert error["code"] == -32001
    assert "bad token" in error["message"]
    assert error["data"] == {"code": "unauthorized", "retryable": False}
    assert len(calls(peer, "memory_set")) == 1


def test_a_token_that_was_changed_in_its_file_is_used(peer, tmp_path):
    file = tmp_path / "token"
    file.write_text("old")

    def answer(exchange):
        if exchange.headers["Authorization"] == "Bearer new":
            exchange.usual()
        else:
            exchange.refuse(401)

    peer.answers["memory_get"] = answer
    with stub("--url", peer.url, "--token-file", str(file)) as host:
        host.initialize()
        file.write_text("new\n")
        host.call(1, "memory_get", key="a")
        assert "result" in host.heard()


def test_what_was_refused_until_later_is_asked_again_later(peer, connected):
    def busy(exchange):
        exchange.refuse(503, headers={"Retry-After": "0"})

    peer.answers["plain_write"] = failing(2, busy)
    host = connected()
    host.call(1, "plain_write")
    assert "result" in host.heard()
    assert len(calls(peer, "plain_write")) == 3


def test_a_gateway_in_between_that_fails_leaves_a_plain_write_unknown(peer, connected):
    peer.answers["plain_write"] = lambda exchange: exchange.refuse(502)
    host = connected()
    host.call(1, "plain_write")
    assert "unknown" in host.heard()["error"]["message"]
    assert len(calls(peer, "plain_write")) == 1


def problem(code):
    def answer(exchange):
        told = {"problem": {"code": code, "retryable": True}}
        exchange.result({"isError": True, "content": [], "structuredContent": told})

    return answer


@pytest.mark.parametrize("code", ["unavailable", "busy"])
def test_a_keyed_write_that_a_stopping_server_gave_up_is_repeated(peer, connected, code):
    peer.answers["memory_set"] = failing(1, problem(code))
    host = connected()
    host.call(1, "memory_set", key="a", value="b")
    assert host.heard()["result"]["structuredContent"]["value"] == "b"


@pytest.mark.parametrize(("code", "times"), [("busy", 2), ("unavailable", 1)])
def test_a_write_without_a_key_is_repeated_only_if_nothing_was_done(peer, connected, code, times):
    peer.answers["plain_write"] = failing(1, problem(code))
    host = connected()
    host.call(1, "plain_write", x=1)
    assert ("isError" in host.heard()["result"]) == (times == 1)
    assert len(calls(peer, "plain_write")) == times


def test_what_stays_busy_is_told_when_its_time_is_over(peer, connected):
    peer.answers["memory_set"] = problem("busy")
    host = connected(*QUICK)
    host.call(1, "memory_set", key="a", value="b")
    answer = host.heard()
    # Its last attempt may be one that the time was not enough for.
    assert answer.get("result", {}).get("isError") or answer["error"]["data"]["retryable"]
    assert len(calls(peer, "memory_set")) > 1


def test_an_error_of_the_server_is_passed_on_as_it_is(peer, connected):
    peer.answers["memory_get"] = lambda exchange: exchange.refuse(400, -32602, "No such thing.")
    host = connected()
    host.call(1, "memory_get", key="a")
    assert host.heard()["error"] == {"code": -32602, "message": "No such thing."}


def test_a_client_id_is_added_where_a_tool_takes_one(peer, connected):
    host = connected("--client-id", "desktop")
    host.call(1, "plain_write", x=1)
    host.call(2, "plain_write", client_id="mine")
    host.call(3, "memory_set", key="a", value="b")
    for _ in range(3):
        host.heard()
    first, second = [arguments(message) for message in calls(peer, "plain_write")]
    assert (first["client_id"], second["client_id"]) == ("desktop", "mine")
    assert "client_id" not in arguments(calls(peer, "memory_set")[0])
