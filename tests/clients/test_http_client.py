"""The raw client over streamable HTTP, against a server that answers as the test says."""

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from clients.certificates import self_signed, tls_of
from clients.http_peer import Peer
from memory_bridge.client import (
    Client,
    ConnectionLost,
    Forbidden,
    HTTPFailure,
    MCPError,
    ProtocolError,
    SessionLost,
    TimedOut,
    Unauthorized,
    Unreachable,
)
from memory_bridge.connections import Connection
from waiting import wait_until


@pytest.fixture
def heard():
    return []


@pytest.fixture
def client(peer, heard):
    options = {"timeout": 10, "on_notification": lambda *told: heard.append(told)}
    with Client.http(peer.url, token="secret", **options) as client:
        yield client


def called(client, tool="echo", **arguments):
    return client.call_tool(tool, arguments)["structuredContent"]


def test_token_session_and_version_go_with_every_request_after_the_greeting(client, peer):
    called(client)
    greeting, _ = peer.sent("initialize")[0]
    assert greeting["Authorization"] == "Bearer secret"
    assert greeting["Mcp-Session-Id"] is None
    for method in ("notifications/initialized", "tools/call"):
        headers, _ = peer.sent(method)[0]
        assert headers["Authorization"] == "Bearer secret"
        assert headers["Mcp-Session-Id"] == "s1"
        assert headers["MCP-Protocol-Version"] == "2025-11-25"


def test_closing_ends_the_session(peer):
    with Client.http(peer.url):
        pass
    method, headers, _ = peer.requests[-1]
    assert (method, headers["Mcp-Session-Id"]) == ("DELETE", "s1")


def test_one_connection_serves_one_thread(client, peer):
    for number in range(5):
        assert called(client, n=number) == {"n": number}
    assert peer.connections == 1


def test_a_connection_is_kept_after_a_stream_too(client, peer):
    peer.answers["echo"] = lambda x: x.stream(x.answer_event())
    for number in range(5):
        assert called(client, n=number) == {"n": number}
    assert peer.connections == 1


def test_a_connection_that_the_server_closed_is_replaced(client, peer):
    peer.answers["last"] = lambda x: (x.usual(), setattr(x, "close_connection", True))
    called(client, "last")
    wait_until(lambda: client._transport._pool._idle[0].stale)
    assert called(client, a=1) == {"a": 1}
    assert peer.connections == 2


def test_a_request_that_could_not_be_handed_over_goes_again_over_a_new_connection(
    client, peer, monkeypatch
):
    called(client)
    monkeypatch.setattr(Connection, "stale", False)
    client._transport._pool._idle[0]._socket.shutdown(socket.SHUT_WR)
    assert called(client, a=1) == {"a": 1}
    assert len(peer.sent("tools/call")) == 2


def test_a_connection_of_one_answer_is_replaced(client, peer):
    peer.answers["echo"] = lambda x: x.result({"content": []}, headers={"Connection": "close"})
    client.call_tool("echo")
    client.call_tool("echo")
    assert peer.connections == 2


def test_an_answer_without_a_length_is_read_to_the_end(client, peer):
    def until_closed(exchange):
        exchange.send_response(200)
        exchange.send_header("Content-Type", "text/event-stream")
        exchange.end_headers()
        exchange.wfile.write(exchange.answer_event().encode())
        exchange.close_connection = True

    peer.answers["echo"] = until_closed
    assert called(client, a=1) == {"a": 1}


def test_a_stream_carries_comments_notifications_and_data_in_several_lines(client, peer, heard):
    def stream(exchange):
        answer = json.dumps(
            {"jsonrpc": "2.0", "id": exchange.message["id"], "result": {"content": []}}, indent=1
        )
        exchange.stream(
            "\ufeff: ping\n\nid: 7\nretry: 100\ndata:\n\n",
            "event: other\ndata: not json\n\n",
            exchange.event(method="notifications/message", params={"n": 1}).replace("\n", "\r\n"),
            exchange.event(method="notifications/message", params={"n": 2}).replace("\n", "\r"),
            exchange.event(id=424242, result={}),
            "event: message\n" + "".join(f"data: {line}\n" for line in answer.splitlines()) + "\n",
        )

    peer.answers["echo"] = stream
    assert client.call_tool("echo") == {"content": []}
    assert heard == [("notifications/message", {"n": 1}), ("notifications/message", {"n": 2})]


def test_a_stream_may_be_cut_at_any_byte(client, peer):
    def stream(exchange):
        text = f": é\r\n\r\n{exchange.answer_event()}".encode()
        exchange.stream(*(text[at : at + 1] for at in range(len(text))))

    peer.answers["echo"] = stream
    assert called(client, text="é\n") == {"text": "é\n"}


def test_a_request_of_the_server_is_answered_while_the_stream_goes_on(client, peer):
    def replies():
        return [m for _, _, m in peer.requests if m and "method" not in m]

    def stream(exchange):
        exchange.stream(
            exchange.event(id="p1", method="ping"),
            exchange.event(id=1, method="roots/list"),
            lambda: wait_until(lambda: len(replies()) == 2),
            exchange.answer_event(),
        )

    peer.answers["echo"] = stream
    called(client)
    pong, refusal = replies()
    assert pong == {"jsonrpc": "2.0", "id": "p1", "result": {}}
    assert refusal["error"]["code"] == -32601


def test_an_answer_to_the_server_that_fails_does_not_fail_the_call(client, peer):
    def stream(exchange):
        exchange.stream(exchange.event(id="p1", method="ping"), exchange.answer_event())

    peer.answers["echo"] = stream
    peer.answers[None] = lambda exchange: exchange.empty(500)
    assert called(client, a=1) == {"a": 1}


def test_a_message_longer_than_the_limit_is_refused(client, peer, monkeypatch):
    monkeypatch.setattr("memory_bridge.sse.MAX_MESSAGE_BYTES", 1000)
    monkeypatch.setattr("memory_bridge.responses.MAX_MESSAGE_BYTES", 1000)
    with pytest.raises(ProtocolError, match="longer than 1000 bytes"):
        called(client, text="x" * 1000)
    peer.answers["echo"] = lambda x: x.stream(x.answer_event())
    with pytest.raises(ProtocolError, match="longer than 1000 bytes"):
        called(client, text="x" * 1000)


def test_a_notification_is_sent(client, peer):
    client.notify("notifications/roots/list_changed")
    assert peer.sent("notifications/roots/list_changed")


def test_a_stream_that_ends_without_an_answer_is_a_lost_connection(client, peer):
    peer.answers["echo"] = lambda x: x.stream(": nothing\n\n")
    with pytest.raises(ConnectionLost, match="without an answer"):
        client.call_tool("echo")


def test_a_stream_that_stays_open_after_the_answer_does_not_hold_it_up(client, peer):
    peer.answers["open"] = lambda x: x.stream(x.answer_event(), peer.closing.wait)
    began = time.monotonic()
    assert called(client, "open", a=1) == {"a": 1}
    assert time.monotonic() - began < 5
    assert called(client, a=2) == {"a": 2}


def test_twenty_calls_in_flight_each_get_their_own_answer(client, peer):
    everyone = threading.Barrier(20)

    def answer_together(exchange):
        everyone.wait(10)
        exchange.usual()

    peer.answers["echo"] = answer_together
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda n: called(client, n=n), range(20)))
    assert [answer["n"] for answer in answers] == list(range(20))


def test_a_huge_value_goes_there_and_back_by_either_form(client, peer):
    text = "é" * 4_000_000
    assert called(client, text=text) == {"text": text}
    peer.answers["echo"] = lambda x: x.stream(x.answer_event())
    assert called(client, text=text) == {"text": text}


def test_a_hung_server_cannot_hang_the_client_and_is_told(client, peer):
    peer.answers["hang"] = lambda _: peer.closing.wait()
    with pytest.raises(TimedOut, match=r"within 0\.2 seconds"):
        client.call_tool("hang", timeout=0.2)
    _, cancelled = peer.sent("notifications/cancelled")[0]
    assert cancelled["params"]["requestId"] == peer.sent("tools/call")[0][1]["id"]


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 ",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n",
    ],
)
def test_a_server_that_trickles_cannot_outlast_the_deadline(client, peer, head):
    def trickle(exchange):
        exchange.wfile.write(head)
        while not peer.closing.wait(0.05):
            exchange.wfile.write(b"x")
            exchange.wfile.flush()

    peer.answers["trickle"] = trickle
    began = time.monotonic()
    with pytest.raises(TimedOut):
        client.call_tool("trickle", timeout=0.5)
    assert time.monotonic() - began < 5


def test_a_ping_every_moment_does_not_put_off_the_deadline(client, peer):
    def ping_for_ever(exchange):
        def pings():
            while not peer.closing.wait(0.05):
                exchange.wfile.write(b"8\r\n: ping\n\n\r\n")
                exchange.wfile.flush()

        exchange.stream(pings)

    peer.answers["pings"] = ping_for_ever
    with pytest.raises(TimedOut):
        client.call_tool("pings", timeout=0.5)


def test_a_server_that_hangs_up_in_the_middle_is_lost_and_not_asked_again(client, peer):
    peer.answers["echo"] = lambda x: x.connection.shutdown(socket.SHUT_RDWR)
    with pytest.raises(ConnectionLost):
        client.call_tool("echo")
    assert len(peer.sent("tools/call")) == 1


def test_an_answer_that_is_cut_short_is_a_lost_connection(client, peer):
    def cut(exchange):
        exchange.body(
            200, b'{"jsonrpc"', {"Content-Type": "application/json", "Content-Length": "99"}
        )
        exchange.close_connection = True

    peer.answers["echo"] = cut
    with pytest.raises(ConnectionLost, match="in the middle"):
        client.call_tool("echo")


def test_a_refused_token_is_an_error_of_its_own_with_the_servers_words(peer):
    peer.answers["initialize"] = lambda x: x.refuse(401, message="The token has expired.")
    with pytest.raises(Unauthorized, match="expired"), Client.http(peer.url):
        pass


def test_a_forbidden_call_is_an_error_of_its_own(client, peer):
    peer.answers["echo"] = lambda x: x.empty(403)
    with pytest.raises(Forbidden):
        client.call_tool("echo")


@pytest.mark.parametrize("status", [429, 500, 503])
def test_another_refusal_carries_its_status(client, peer, status):
    peer.answers["echo"] = lambda x: x.refuse(
        status, message="Too much.", headers={"Retry-After": "7"}
    )
    with pytest.raises(HTTPFailure, match=r"Too much\. Try again in 7 seconds\.") as failed:
        client.call_tool("echo")
    assert failed.value.status == status


@pytest.mark.parametrize("status", [200, 400])
def test_an_error_of_the_protocol_is_one_at_any_status(client, peer, status):
    peer.answers["echo"] = lambda x: x.refuse(status, code=-32602, message="No such tool.")
    with pytest.raises(MCPError, match="No such tool") as failed:
        client.call_tool("echo")
    assert failed.value.code == -32602


def test_a_redirect_is_not_followed_but_named(client, peer):
    peer.answers["echo"] = lambda x: x.empty(307, {"Location": "http://elsewhere/mcp"})
    with pytest.raises(ProtocolError, match="http://elsewhere/mcp"):
        client.call_tool("echo")


def test_what_is_no_mcp_server_is_said_to_be_none(client, peer):
    peer.answers["echo"] = lambda x: x.body(200, b"<html>", {"Content-Type": "text/html"})
    with pytest.raises(ProtocolError, match="text/html"):
        client.call_tool("echo")


def test_a_request_that_is_merely_accepted_is_a_fault(client, peer):
    peer.answers["echo"] = lambda x: x.empty(202)
    with pytest.raises(ProtocolError, match="202"):
        client.call_tool("echo")


def refusing_the_first_session(exchange):
    if exchange.headers["Mcp-Session-Id"] == "s1":
        exchange.peer.session = "s2"
        exchange.refuse(404, -32600, "Session not found")
    else:
        exchange.usual()


def test_a_lost_session_is_renewed_once_and_the_call_sent_again(client, peer):
    peer.answers["echo"] = refusing_the_first_session
    assert called(client, a=1) == {"a": 1}
    assert [h["Mcp-Session-Id"] for h, _ in peer.sent("tools/call")] == ["s1", "s2"]
    assert len(peer.sent("initialize")) == 2


def test_many_calls_that_lose_their_session_renew_it_once(client, peer):
    peer.answers["echo"] = refusing_the_first_session
    with ThreadPoolExecutor(10) as pool:
        assert len(list(pool.map(lambda n: called(client, n=n), range(10)))) == 10
    assert len(peer.sent("initialize")) == 2


def test_a_session_that_is_lost_again_is_an_error(client, peer):
    peer.answers["echo"] = lambda x: x.refuse(404, -32600, "Session not found")
    with pytest.raises(SessionLost):
        client.call_tool("echo")
    assert len(peer.sent("tools/call")) == 2


def test_nobody_listening_is_unreachable():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/mcp"
        with pytest.raises(Unreachable, match="cannot be reached"), Client.http(url):
            pass


def test_tls_is_spoken_with_those_who_prove_who_they_are(tmp_path, monkeypatch):
    certificate = self_signed(tmp_path)
    with Peer().serving(tls_of(certificate)) as peer:
        with pytest.raises(Unreachable, match="certificate verify failed"), Client.http(peer.url):
            pass
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        with Client.http(peer.url) as client:
            assert called(client, a=1) == {"a": 1}
            assert called(client, a="x" * 1_000_000)["a"][-1] == "x"


@pytest.mark.parametrize("url", ["", "ftp://x/", "http://", "http://x:port/", "http://[::1"])
def test_what_is_no_url_is_refused_with_a_sentence(url):
    with pytest.raises(ValueError, match="is not a URL"):
        Client.http(url)


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "tökén"])
def test_what_is_no_token_is_refused_without_being_repeated(token):
    with pytest.raises(ValueError, match="The token is empty or") as refused:
        Client.http("http://127.0.0.1/", token=token)
    assert token not in str(refused.value) or not token


def test_closing_ends_the_calls_in_flight(client, peer):
    peer.answers["hang"] = lambda _: peer.closing.wait()
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(client.call_tool, "hang")
        wait_until(lambda: peer.sent("tools/call"))
        client.close()
        assert isinstance(call.exception(5), ConnectionLost)


def test_the_modern_era_says_all_with_every_request_and_needs_no_session(peer):
    with Client.http(peer.url, era="modern") as client:
        called(client, a=1)
    headers, message = peer.sent("tools/call")[0]
    assert headers["MCP-Protocol-Version"] == "2026-07-28"
    assert (headers["Mcp-Method"], headers["Mcp-Name"]) == ("tools/call", "echo")
    assert headers["Mcp-Session-Id"] is None
    assert message["params"]["_meta"] == {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": client._info,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    assert [method for method, _, _ in peer.requests] == ["POST", "POST"]


@pytest.mark.parametrize(
    ("name", "header"),
    [("memory://a/b c", "memory://a/b c"), ("é", "=?base64?w6k=?="), (" x", "=?base64?IHg=?=")],
)
def test_a_name_that_no_header_can_hold_is_encoded(peer, name, header):
    with Client.http(peer.url, era="modern") as client:
        client.request("resources/read", {"uri": name})
    assert peer.sent("resources/read")[0][0]["Mcp-Name"] == header


def test_a_modern_call_that_timed_out_is_cancelled_by_hanging_up(peer):
    peer.answers["hang"] = lambda _: peer.closing.wait()
    with Client.http(peer.url, era="modern") as client, pytest.raises(TimedOut):
        client.call_tool("hang", timeout=0.2)
    assert not peer.sent("notifications/cancelled")
