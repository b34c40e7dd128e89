"""The server on HTTP: its door, what it tolerates, and how it ends."""

import json
import signal
import socket
import subprocess
from contextlib import closing
from http.client import HTTPConnection

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from gateway_serving import (
    ACCEPT,
    AUTHORIZED,
    INITIALIZE,
    MODERN,
    SECONDS,
    TOKEN,
    command,
    environment,
    http_server,
    message,
    modern,
)

LINES = "one\ntwo\rthree\r\nfour\u2028five\u2029six\x85seven\x0b\x0c\x1c\x1e"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("http")
    settings = {
        "MCP_ALLOWED_HOSTS": "box.example.net",
        "MCP_ALLOWED_ORIGINS": "https://app.example",
    }
    with http_server(folder / "memory.db", **settings) as server:
        yield server


@pytest.fixture
def web(served):
    with httpx2.Client(base_url=served.url.removesuffix("/mcp"), timeout=SECONDS) as web:
        yield web


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28", "auto"])
async def test_the_official_client_is_served_in_both_eras(served, mode):
    async with httpx2.AsyncClient(headers=AUTHORIZED, timeout=SECONDS) as web:
        transport = streamable_http_client(served.url, http_client=web)
        async with Client(transport, mode=mode) as client:
            arguments = {"key": f"by/{mode}", "value": LINES}
            written = await client.call_tool("memory_set", arguments)
            listed = await client.list_resources()
    assert written.structured_content["fact"]["principal"] == "installation"
    assert written.structured_content["fact"]["value"] == LINES
    assert f"by/{mode}" in [resource.name for resource in listed.resources]


REFUSED = {
    "no token": {},
    "a wrong token": {"Authorization": "Bearer a-wrong-token-0123456789"},
    "a part of the token": {"Authorization": f"Bearer {TOKEN[:-1]}"},
    "an empty token": {"Authorization": "Bearer"},
    "another scheme": {"Authorization": f"Basic {TOKEN}"},
    "a cookie": {"Cookie": f"token={TOKEN}"},
}


@pytest.mark.parametrize("headers", REFUSED.values(), ids=REFUSED)
def test_without_the_token_nothing_is_served(web, headers):
    response = web.post("/mcp", json=INITIALIZE, headers=ACCEPT | headers)
    assert response.status_code == 401
    challenge = response.headers["www-authenticate"]
    assert challenge.startswith("Bearer")
    assert ("invalid_token" in challenge) == ("Authorization" in headers)
    answer = response.json()
    assert (answer["jsonrpc"], answer["id"]) == ("2.0", None)
    assert answer["error"]["code"] == -32001
    assert TOKEN not in response.text


def test_a_token_in_the_query_or_sent_twice_is_refused(web):
    assert web.post(f"/mcp?token={TOKEN}", json=INITIALIZE).status_code == 401
    twice = [("Authorization", f"Bearer {TOKEN}")] * 2
    assert web.post("/mcp", json=INITIALIZE, headers=twice).status_code == 401


@pytest.mark.parametrize("path", ["/mcp", "/mcp/", "/", "/docs", "/metrics", "/healthz/"])
def test_only_health_is_open(web, path):
    assert web.get(path).status_code == 401
    assert web.get("/healthz").status_code == 200
    ready = {"status": "ready", "checks": {"store": "ok", "model": "off"}}
    assert web.get("/readyz").json() == ready


def test_the_refusal_does_not_wait_for_the_body(served):
    request = (
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 3000000\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", served.port), timeout=SECONDS) as connection:
        connection.sendall(request)
        assert b" 401 " in connection.recv(4096)


def test_a_websocket_without_the_token_is_refused_and_that_is_no_fault_of_the_server(tmp_path):
    request = (
        b"GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    with http_server(tmp_path / "memory.db") as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS) as connection:
            connection.sendall(request)
            assert b" 401 " in connection.recv(4096)[:16]
        _, said = server.stop(signal.SIGTERM)
    assert "401" in said
    assert "ERROR" not in said


@pytest.mark.parametrize(
    "accept",
    [
        "application/json",
        "text/event-stream",
        "*/*",
        "application/json, text/event-stream",
        "text/event-stream;q=0.9, application/json;q=0.8",
        None,
    ],
)
@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
def test_any_sensible_accept_is_served_in_both_eras_on_both_paths(web, accept, path):
    headers = AUTHORIZED | {"Accept": accept or ""}
    legacy = web.post(path, json=INITIALIZE, headers=headers)
    assert legacy.status_code == 200
    assert message(legacy)["result"]["serverInfo"]["name"] == "memory-bridge"
    listing = {"Mcp-Method": "tools/list"}
    newer = web.post(path, json=modern("tools/list"), headers=headers | MODERN | listing)
    assert newer.status_code == 200
    assert message(newer)["result"]["tools"]
    if accept == "application/json":
        assert legacy.headers["content-type"] == newer.headers["content-type"] == accept


def test_a_stream_is_not_opened_for_who_takes_json_alone(web):
    headers = AUTHORIZED | {"Accept": "application/json"}
    opened = web.post("/mcp", json=INITIALIZE, headers=headers)
    session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
    assert web.get("/mcp", headers=headers | session).status_code == 406
    listen = modern("subscriptions/listen", notifications={"resourcesListChanged": True})
    method = MODERN | {"Mcp-Method": "subscriptions/listen"}
    assert web.post("/mcp", json=listen, headers=headers | method).status_code == 406


def test_an_accept_that_allows_neither_is_refused_in_json_rpc(web):
    response = web.post("/mcp", json=INITIALIZE, headers=AUTHORIZED | {"Accept": "image/png"})
    assert response.status_code == 406
    assert "error" in response.json()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "localhost.evil.example"}, 421),
        ({"Host": "box.example.net"}, 200),
        ({"Host": "box.example.net:8443"}, 200),
        ({"Host": "localhost:1"}, 200),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "https://app.example"}, 200),
        ({"Origin": "http://localhost:3000"}, 200),
        ({"Origin": "https://box.example.net"}, 200),
    ],
)
def test_foreign_hosts_and_origins_are_refused(web, headers, status):
    response = web.post("/mcp", json=INITIALIZE, headers=AUTHORIZED | ACCEPT | headers)
    assert response.status_code == status
    assert "jsonrpc" in message(response)


def test_a_get_that_wants_to_resume_gets_a_stream_and_no_fault(web):
    opened = web.post("/mcp", json=INITIALIZE, headers=AUTHORIZED | ACCEPT)
    session = {"Mcp-Session-Id": opened.headers["mcp-session-id"], "Last-Event-ID": "7"}
    headers = AUTHORIZED | {"Accept": "text/event-stream"} | session
    with web.stream("GET", "/mcp", headers=headers) as response:
        assert response.status_code == 200
    assert web.get("/mcp", headers=AUTHORIZED | {"Last-Event-ID": "7"}).status_code in {400, 404}


def test_a_body_that_is_too_large_is_refused_with_or_without_its_length(web):
    body = b'{"a":"' + b"x" * (5 * 1024 * 1024) + b'"}'
    headers = AUTHORIZED | ACCEPT | {"Content-Type": "application/json"}
    for content in (body, iter([body])):
        response = web.post("/mcp", content=content, headers=headers)
        assert response.status_code == 413
        assert response.json()["error"]["message"]


@pytest.mark.parametrize(
    "body",
    [b'{"jsonrpc":"2.0","id":1,"met', b"\xff\xfe", b"[]", b'{"jsonrpc":"2.0","id":1}', b""],
)
@pytest.mark.parametrize("era", [{}, MODERN])
def test_a_body_that_is_no_message_is_refused_in_json_rpc(web, body, era):
    headers = AUTHORIZED | ACCEPT | {"Content-Type": "application/json"} | era
    response = web.post("/mcp", content=body, headers=headers)
    assert response.status_code == 400
    assert "error" in response.json()


@pytest.mark.parametrize("era", [{}, MODERN])
def test_a_lone_surrogate_is_refused_in_both_eras(web, era):
    arguments = {"key": "surrogate", "value": "\ud800"}
    call = modern("tools/call", name="memory_set", arguments=arguments)
    headers = AUTHORIZED | ACCEPT | era | {"Content-Type": "application/json"}
    names = {"Mcp-Method": "tools/call", "Mcp-Name": "memory_set"}
    response = web.post("/mcp", content=json.dumps(call), headers=headers | names)
    answer = response.json()
    assert "error" in answer or answer["result"]["isError"]


def test_an_unknown_session_is_told_so(web):
    headers = AUTHORIZED | ACCEPT | {"Mcp-Session-Id": "gone"}
    response = web.post("/mcp", json=INITIALIZE, headers=headers)
    assert response.status_code == 404
    assert "error" in response.json()


def test_a_subscriber_hears_of_a_write(web):
    listen = modern(
        "subscriptions/listen",
        notifications={"resourceSubscriptions": ["memory://default/a%2Fb"]},
    )
    method = AUTHORIZED | ACCEPT | MODERN | {"Mcp-Method": "subscriptions/listen"}
    with web.stream("POST", "/mcp", json=listen, headers=method) as stream:
        events = stream.iter_lines()
        assert any("acknowledged" in line for line in events)
        call = modern("tools/call", name="memory_set", arguments={"key": "a/b", "value": "v"})
        names = {"Mcp-Method": "tools/call", "Mcp-Name": "memory_set"}
        web.post("/mcp", json=call, headers=AUTHORIZED | ACCEPT | MODERN | names)
        assert "a%2Fb" in next(line for line in events if "resources/updated" in line)


def test_a_taken_port_is_a_sentence(served, tmp_path):
    settings = {"MCP_HTTP_PORT": str(served.port), "MCP_AUTH_TOKEN": TOKEN}
    ended = subprocess.run(
        command(str(tmp_path / "memory.db"), "--http"),
        capture_output=True,
        text=True,
        env=environment(**settings),
        timeout=SECONDS,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1
    assert f"port {served.port}" in ended.stderr


def test_blanks_around_a_header_are_no_part_of_it(served):
    names = MODERN | {"Mcp-Method": " tools/call", "Mcp-Name": "\t memory_stats  "}
    body = json.dumps(modern("tools/call", name="memory_stats", arguments={}))
    kind = {"Content-Type": "application/json "}
    with closing(HTTPConnection("127.0.0.1", served.port, timeout=SECONDS)) as connection:
        connection.request("POST", "/mcp", body, AUTHORIZED | ACCEPT | names | kind)
        assert connection.getresponse().status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/.well-known/oauth-protected-resource",
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-authorization-server",
        "/.well-known/openid-configuration",
        "/register",
    ],
)
def test_a_client_is_not_sent_to_an_authorization_server_that_is_not_there(web, path):
    refused = web.post("/mcp", json=INITIALIZE, headers={"Authorization": "Bearer wrong"})
    assert refused.status_code == 401
    assert "resource_metadata" not in refused.headers["www-authenticate"]
    assert web.get(path).status_code == 401
    assert web.get(path, headers=AUTHORIZED).status_code == 404
