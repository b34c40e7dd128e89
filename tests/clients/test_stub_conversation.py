"""What passes through the stub: both eras, sessions, cancellation, and what servers say."""

import threading

import pytest

from clients.faults import failing
from clients.stub_process import ENVELOPE, INFO, stub
from memory_bridge.stub.serving import LAST_ANSWERS_SECONDS
from waiting import wait_until

SUBSCRIPTION = {"io.modelcontextprotocol/subscriptionId": "s"}


@pytest.fixture
def host(peer):
    with stub("--url", peer.url, "--token", "secret") as host:
        yield host


@pytest.fixture
def in_session(host):
    host.initialize()
    return host


def lost_session(peer):
    """From here on the peer knows another session only, as after a restart."""
    peer.session = "s2"

    def answer(exchange):
        if exchange.headers["Mcp-Session-Id"] == "s2":
            exchange.usual()
        else:
            exchange.refuse(404, -32600, "Session not found")

    for name in ("memory_get", "resources/subscribe"):
        peer.answers[name] = answer


def test_a_host_of_the_handshake_era_has_a_session(in_session, peer):
    in_session.call(1, "memory_get", key="a")
    assert in_session.heard()["result"]["structuredContent"] == {"key": "a"}

    headers, greeting = peer.sent("initialize")[0]
    assert headers["Mcp-Session-Id"] is None
    assert greeting["params"]["clientInfo"] == INFO
    (initialized,) = peer.sent("notifications/initialized")
    for headers, _ in (initialized, *peer.sent("tools/call")):
        assert headers["Authorization"] == "Bearer secret"
        assert headers["Mcp-Session-Id"] == "s1"
        assert headers["MCP-Protocol-Version"] == "2025-11-25"


def test_what_is_said_in_one_breath_with_the_greeting_waits_for_its_answer(host, peer):
    greet = threading.Event()
    peer.answers["initialize"] = lambda x: (greet.wait(), x.usual())
    greeting = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": INFO}
    host.request(1, "initialize", **greeting)
    host.notify("notifications/initialized")
    host.request(2, "tools/list")
    host.call(3, "memory_set", key="a")
    host.notify("notifications/roots/list_changed")
    host.request("p", "ping")
    assert host.heard()["id"] == "p"  # so all of it has been taken
    greet.set()

    assert host.heard()["id"] == 1
    assert {host.heard()["id"], host.heard()["id"]} == {2, 3}
    wait_until(lambda: peer.sent("notifications/roots/list_changed"))
    later = [(h, m) for _, h, m in peer.requests if m and m["method"] != "initialize"]
    assert later[0][1]["method"] == "notifications/initialized"
    assert {headers["Mcp-Session-Id"] for headers, _ in later} == {"s1"}


def test_what_waits_for_a_greeting_that_is_refused_is_answered_all_the_same(host, peer):
    peer.answers["initialize"] = lambda exchange: exchange.refuse(400, -32602, "No.")
    host.request(1, "initialize")
    host.request(2, "tools/list")
    assert host.heard()["error"]["message"] == "No."
    assert host.heard()["id"] == 2


def test_what_waits_for_a_greeting_can_be_cancelled(host, peer):
    greet = threading.Event()
    peer.answers["initialize"] = lambda x: (greet.wait(), x.usual())
    host.request(1, "initialize", protocolVersion="2025-11-25")
    host.call(2, "memory_set", key="a")
    host.notify("notifications/cancelled", requestId=2)
    host.call(3, "memory_set", key="b")
    host.request("p", "ping")
    assert host.heard()["id"] == "p"
    greet.set()

    assert [host.heard()["id"], host.heard()["id"]] == [1, 3]
    assert [m["params"]["arguments"]["key"] for _, m in peer.sent("tools/call")] == ["b"]


def test_a_host_of_the_modern_era_has_its_headers_and_no_session(host, peer):
    host.modern("d", "server/discover")
    host.modern("t", "tools/call", name="memory_set", arguments={"key": "a"})
    host.modern("r", "resources/read", uri="memory://default/ä")
    assert {host.heard()["id"] for _ in range(3)} == {"d", "t", "r"}

    headers, message = peer.sent("tools/call")[0]
    assert headers["MCP-Protocol-Version"] == "2026-07-28"
    assert headers["Mcp-Method"] == "tools/call"
    assert headers["Mcp-Name"] == "memory_set"
    assert headers["Mcp-Session-Id"] is None
    assert message["params"]["_meta"] == ENVELOPE
    headers, _ = peer.sent("resources/read")[0]
    assert headers["Mcp-Name"].startswith("=?base64?")
    listed = [m["params"]["_meta"] for _, m in peer.sent("tools/list")]
    assert listed == [ENVELOPE]
    assert peer.sent("initialize") == []


def test_a_message_passes_as_it_was_said(host, peer):
    said = {"deep": [{"ünï": "☃ \ud800"}], "float": 0.1, "large": 2**70, "none": None}
    host.modern(1, "tools/call", name="memory_get", arguments=said, _extra={"x": []})
    assert host.heard()["result"]["structuredContent"] == said
    assert peer.sent("tools/call")[0][1]["params"]["_extra"] == {"x": []}


def test_a_lost_session_is_renewed_behind_the_hosts_back(in_session, peer):
    lost_session(peer)

    in_session.call(1, "memory_get", key="a")

    assert in_session.heard()["result"]["structuredContent"] == {"key": "a"}
    (_, first), (_, second) = peer.sent("initialize")
    assert first["params"] == second["params"]
    assert peer.sent("tools/call")[-1][0]["Mcp-Session-Id"] == "s2"
    assert len(peer.sent("notifications/initialized")) == 2


def test_what_a_session_was_subscribed_to_is_subscribed_again_and_may_have_changed(
    in_session, peer
):
    in_session.request(1, "resources/subscribe", uri="memory://default/a")
    in_session.request(2, "resources/subscribe", uri="memory://default/b")
    in_session.heard(), in_session.heard()
    in_session.request(3, "resources/unsubscribe", uri="memory://default/b")
    in_session.heard()
    lost_session(peer)

    in_session.call(4, "memory_get", key="a")

    told = [in_session.heard(), in_session.heard()]
    assert [message.get("method") for message in told] == ["notifications/resources/updated", None]
    assert told[0]["params"] == {"uri": "memory://default/a"}
    again = [
        m["params"]["uri"]
        for h, m in peer.sent("resources/subscribe")
        if h["Mcp-Session-Id"] == "s2"
    ]
    assert again == ["memory://default/a"]


@pytest.mark.parametrize("method", ["notifications/initialized", "resources/subscribe"])
@pytest.mark.parametrize("status", [429, 502])
def test_a_session_whose_renewal_breaks_off_is_renewed_from_the_start(
    in_session, peer, method, status
):
    in_session.request(1, "resources/subscribe", uri="memory://default/a")
    in_session.heard()
    lost_session(peer)
    headers = {"Retry-After": "0"} if status == 429 else {}
    peer.answers[method] = failing(1, lambda exchange: exchange.refuse(status, headers=headers))

    in_session.call(2, "memory_get", key="a")

    told = [in_session.heard(), in_session.heard()]
    assert told[0].get("method") == "notifications/resources/updated"
    assert told[1]["result"]["structuredContent"] == {"key": "a"}
    renewed = [m["method"] for _, h, m in peer.requests if m and h["Mcp-Session-Id"] == "s2"]
    assert renewed[-3:] == ["notifications/initialized", "resources/subscribe", "tools/call"]
    assert renewed.count("tools/call") == 1


def test_progress_and_requests_of_the_server_reach_the_host_and_its_answer_the_server(
    in_session, peer
):
    answered = threading.Event()
    peer.answers[None] = lambda exchange: (exchange.empty(202), answered.set())
    peer.answers["memory_get"] = lambda exchange: exchange.stream(
        exchange.event(method="notifications/progress", params={"progress": 1}),
        exchange.event(id="roots", method="roots/list"),
        answered.wait,
        exchange.answer_event(),
    )
    in_session.call(1, "memory_get", key="a")

    assert in_session.heard()["params"] == {"progress": 1}
    assert in_session.heard()["method"] == "roots/list"
    in_session.say({"jsonrpc": "2.0", "id": "roots", "result": {"roots": []}})
    assert in_session.heard()["id"] == 1
    assert {"jsonrpc": "2.0", "id": "roots", "result": {"roots": []}} in [
        message for _, _, message in peer.requests
    ]


def test_what_the_server_says_by_itself_reaches_the_host_and_again_after_a_break(peer):
    def speak(exchange):
        exchange.stream(exchange.event(method="notifications/message", params={}))

    peer.answers["GET"] = speak
    with stub("--url", peer.url) as host:
        host.initialize()
        for _ in range(3):
            assert host.heard()["method"] == "notifications/message"
    sessions = {headers["Mcp-Session-Id"] for kind, headers, _ in peer.requests if kind == "GET"}
    assert sessions == {"s1"}


def test_a_session_that_ended_is_renewed_before_the_host_asks_for_anything(peer):
    peer.answers["GET"] = failing(1, lambda exchange: exchange.refuse(404))
    with stub("--url", peer.url) as host:
        host.initialize()
        wait_until(lambda: len(peer.sent("initialize")) == 2)


def test_a_subscription_goes_on_when_its_stream_breaks(host, peer):
    kinds = {"resourcesListChanged": True, "resourceSubscriptions": ["memory://default/a"]}

    def acknowledge(exchange, *more):
        acknowledged = {"notifications": kinds, "_meta": SUBSCRIPTION}
        exchange.stream(
            exchange.event(method="notifications/subscriptions/acknowledged", params=acknowledged),
            *more,
        )

    answers = [acknowledge, lambda exchange: acknowledge(exchange, peer.closing.wait)]

    def answer(exchange):
        answers.pop(0)(exchange)

    peer.answers["subscriptions/listen"] = answer

    host.modern("s", "subscriptions/listen", notifications=kinds)

    told = [host.heard() for _ in range(3)]
    assert [message["method"] for message in told] == [
        "notifications/subscriptions/acknowledged",
        "notifications/resources/list_changed",
        "notifications/resources/updated",
    ]
    assert told[2]["params"] == {"uri": "memory://default/a", "_meta": SUBSCRIPTION}


def test_a_subscription_is_ended_by_cancelling_and_does_not_keep_the_stub(host, peer):
    ended = threading.Semaphore(0)
    peer.answers["subscriptions/listen"] = lambda x: (x.connection.recv(1), ended.release())
    host.modern("a", "subscriptions/listen", notifications={})
    host.modern("b", "subscriptions/listen", notifications={})
    wait_until(lambda: len(peer.sent("subscriptions/listen")) == 2)

    host.notify("notifications/cancelled", requestId="a")
    assert ended.acquire(timeout=10)

    host.process.stdin.close()
    host.process.wait(LAST_ANSWERS_SECONDS - 1)
    assert host.said == []


def test_cancelling_in_the_handshake_era_tells_the_server_and_silences_the_answer(in_session, peer):
    cancelled = threading.Event()

    def answer(exchange):
        cancelled.wait()
        exchange.usual()

    peer.answers["memory_get"] = answer
    peer.answers["notifications/cancelled"] = lambda x: (x.empty(202), cancelled.set())
    in_session.call(1, "memory_get", key="a")
    wait_until(lambda: peer.sent("tools/call"))

    in_session.notify("notifications/cancelled", requestId=1, reason="enough")
    assert cancelled.wait(10)
    in_session.request(2, "tools/list")

    assert in_session.heard()["id"] == 2
    (_, told) = peer.sent("notifications/cancelled")[0]
    assert told["params"] == {"requestId": peer.sent("tools/call")[0][1]["id"], "reason": "enough"}


def test_cancelling_in_the_modern_era_hangs_up(host, peer):
    hung_up = threading.Event()

    def answer(exchange):
        exchange.connection.recv(1)
        hung_up.set()

    peer.answers["resources/read"] = answer
    host.modern(1, "resources/read", uri="memory://default/a")
    wait_until(lambda: peer.sent("resources/read"))

    host.notify("notifications/cancelled", requestId=1)

    assert hung_up.wait(10)
    host.modern(2, "tools/list")
    assert host.heard()["id"] == 2
    assert peer.sent("notifications/cancelled") == []


def test_a_call_that_still_waits_is_cancelled_before_it_is_sent(in_session, peer):
    let_through = threading.Event()
    peer.answers["memory_set"] = lambda x: (let_through.wait(), x.usual())
    in_session.call(1, "memory_set", key="a", value="1")
    in_session.call(2, "memory_set", key="a", value="2")
    in_session.notify("notifications/cancelled", requestId=2)
    in_session.call(3, "memory_set", key="a", value="3")
    in_session.request(4, "tools/list")
    assert in_session.heard()["id"] == 4  # so the cancellation has been taken too
    let_through.set()

    assert [in_session.heard()["id"], in_session.heard()["id"]] == [1, 3]
    values = [m["params"]["arguments"]["value"] for _, m in peer.sent("tools/call")]
    assert values == ["1", "3"]


def test_a_ping_is_answered_while_the_server_is_away():
    with stub("--url", "http://127.0.0.1:9") as host:
        host.request("p", "ping")
        assert host.heard() == {"jsonrpc": "2.0", "id": "p", "result": {}}


@pytest.mark.parametrize(
    ("line", "code", "request_id"),
    [
        (b"hello", -32700, None),
        (b"\xff\xfe", -32700, None),
        (b"[" * 100_000, -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"n":NaN}}', -32700, None),
        (b"[]", -32600, None),
        (b'{"id":1,"method":"x"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"x"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":true,"method":"x"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":1,"method":2}', -32600, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":[1]}', -32600, 1),
        (b'{"jsonrpc":"2.0"}', -32600, None),
    ],
)
def test_what_is_no_message_is_answered_with_an_error(host, line, code, request_id):
    host.say(line)
    answer = host.heard()
    assert (answer["error"]["code"], answer["id"]) == (code, request_id)
    host.request(2, "ping")
    assert host.heard()["id"] == 2


def test_two_requests_under_one_id_are_told_apart(in_session, peer):
    let_through = threading.Event()
    peer.answers["memory_set"] = lambda x: (let_through.wait(), x.usual())
    in_session.call(1, "memory_set", key="a", value="1")
    in_session.call(1, "memory_set", key="a", value="2")
    assert in_session.heard()["error"]["code"] == -32600
    let_through.set()
    assert in_session.heard()["result"]["structuredContent"]["value"] == "1"


def test_headers_that_cannot_be_sent_are_refused(host):
    envelope = {**ENVELOPE, "io.modelcontextprotocol/protocolVersion": "2026\r\nX: y"}
    host.request(1, "tools/list", _meta=envelope)
    assert host.heard()["error"]["code"] == -32600
