"""What clients send to the MCP endpoint that is not as it should be, and what they hear."""

import json
import signal
import socket

import httpx2
import pytest

from gateway_serving import (
    ACCEPT,
    AUTHORIZED,
    ENVELOPE,
    INITIALIZE,
    MODERN,
    SECONDS,
    TOKEN,
    http_server,
    message,
    modern,
)

PING = {"jsonrpc": "2.0", "id": 5, "method": "ping"}
LIST = modern("tools/list")
LISTING = MODERN | {"Mcp-Method": "tools/list"}
GET_FACT = modern("tools/call", name="memory_get", arguments={"key": "k"})
CALLING = MODERN | {"Mcp-Method": "tools/call", "Mcp-Name": "memory_get"}
MISMATCH = -32020
UNSUPPORTED = -32022


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with http_server(tmp_path_factory.mktemp("requests") / "memory.db") as server:
        yield server
        server.process.terminate()
        server.process.wait(SECONDS)
        server.reader.join(SECONDS)
        said = "".join(server.errors)
        assert "Traceback" not in said
        assert '"level": "ERROR"' not in said


@pytest.fixture(scope="module")
def web(served):
    base = served.url.removesuffix("/mcp")
    headers = AUTHORIZED | ACCEPT
    with httpx2.Client(base_url=base, timeout=SECONDS, headers=headers) as web:
        yield web


@pytest.fixture
def session(web):
    opened = web.post("/mcp", json=INITIALIZE)
    return {"Mcp-Session-Id": opened.headers["mcp-session-id"]}


def refusal(response):
    """The error of a refusal, which is one JSON-RPC object whatever was wrong."""
    assert response.headers["content-type"] == "application/json"
    answer = response.json()
    assert set(answer) == {"jsonrpc", "id", "error"}
    assert answer["error"]["message"]
    return answer


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS", "TRACE"])
@pytest.mark.parametrize("era", [{}, MODERN])
def test_another_method_is_refused_and_the_allowed_ones_are_named(web, path, method, era):
    response = web.request(method, path, headers=era)
    assert response.status_code == 405
    assert "POST" in response.headers["allow"]
    refusal(response)


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
def test_head_is_refused_without_a_body(web, path):
    response = web.head(path)
    assert (response.status_code, response.text) == (405, "")


@pytest.mark.parametrize(
    ("method", "status"), [("BREW", 400), ("get", 400), ("\x01", 400), ("CONNECT", 401)]
)
def test_what_is_no_method_is_refused(served, method, status):
    head = f"{method} /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with socket.create_connection(("127.0.0.1", served.port), timeout=SECONDS) as connection:
        connection.sendall(head.encode())
        answer = b"".join(iter(lambda: connection.recv(4096), b""))
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["message"]


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_the_newer_protocol_has_neither_streams_nor_sessions_to_end(web, method):
    response = web.request(method, "/mcp", headers=MODERN)
    assert response.status_code == 405
    refusal(response)


@pytest.mark.parametrize("path", ["/", "/mcp/x", "/MCP", "//mcp", "/mcp;x", "/sse/", "/ws/"])
def test_another_address_is_not_found(web, path):
    response = web.post(path, json=INITIALIZE)
    assert response.status_code == 404
    refusal(response)


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize("name", ["gone", "0" * 32, "x" * 4000, b"\xff\xfe", "../..", "'--"])
def test_a_session_that_nobody_knows_is_not_found(web, method, name):
    headers = [(b"Mcp-Session-Id", name if isinstance(name, bytes) else name.encode())]
    body = {"json": PING} if method == "POST" else {}
    response = web.request(method, "/mcp", headers=headers, **body)
    assert response.status_code == 404
    assert refusal(response)["id"] == (PING["id"] if method == "POST" else None)


def opened(web, url):
    response = web.post(url, json=INITIALIZE)
    return {"Mcp-Session-Id": response.headers["mcp-session-id"]}


def test_sessions_are_unknown_after_a_restart_and_the_other_era_notices_nothing(tmp_path):
    database = tmp_path / "memory.db"
    with httpx2.Client(timeout=SECONDS, headers=AUTHORIZED | ACCEPT) as web:
        with http_server(database) as server:
            url, port = server.url, str(server.port)
            session = opened(web, url)
            assert web.post(url, json=LIST, headers=LISTING).status_code == 200
            server.stop(signal.SIGTERM)
        with http_server(database, MCP_HTTP_PORT=port):
            for method in ("GET", "DELETE"):
                assert web.request(method, url, headers=session).status_code == 404
            told = web.post(url, json=PING, headers=session)
            assert (told.status_code, refusal(told)["id"]) == (404, PING["id"])
            assert web.post(url, json=PING, headers=opened(web, url)).status_code == 200
            assert web.post(url, json=LIST, headers=LISTING).status_code == 200


def test_without_a_session_only_a_handshake_is_taken(web):
    for said in (PING, {"jsonrpc": "2.0", "method": "notifications/initialized"}):
        response = web.post("/mcp", json=said)
        assert response.status_code == 400
        refusal(response)
    for method in ("GET", "DELETE"):
        response = web.request(method, "/mcp")
        assert response.status_code == 400
        refusal(response)


@pytest.mark.parametrize("batch", [[], [PING], [INITIALIZE, PING], [LIST, LIST]])
@pytest.mark.parametrize("era", ["none", "session", "newer"])
def test_a_batch_is_refused(web, session, batch, era):
    headers = {"none": {}, "session": session, "newer": LISTING}[era]
    response = web.post("/mcp", json=batch, headers=headers)
    assert response.status_code == 400
    assert refusal(response)["error"]["code"] == -32600


KINDS = ["text/plain", "application/json-rpc", "application/jsonx", "multipart/form-data", "json"]


@pytest.mark.parametrize("kind", [*KINDS, "", None])
@pytest.mark.parametrize("era", [{}, LISTING])
def test_a_body_that_is_not_said_to_be_json_is_refused(web, kind, era):
    body = json.dumps(LIST if era else INITIALIZE)
    headers = era if kind is None else era | {"Content-Type": kind}
    response = web.post("/mcp", content=body, headers=headers)
    assert response.status_code == 415
    refusal(response)


VERSIONS = {
    "a newer one in the header": ({"MCP-Protocol-Version": "2099-01-01"}, "2026-07-28", MISMATCH),
    "a newer one in both": ({"MCP-Protocol-Version": "2099-01-01"}, "2099-01-01", UNSUPPORTED),
    "an older one in the body": (MODERN, "2025-11-25", MISMATCH),
    "an empty header": ({"MCP-Protocol-Version": ""}, "2026-07-28", MISMATCH),
    "no text in the header": ([(b"MCP-Protocol-Version", b"\xff")], "2026-07-28", MISMATCH),
    "two headers": ([(b"MCP-Protocol-Version", b"2026-07-28")] * 2, "2026-07-28", MISMATCH),
}


@pytest.mark.parametrize(("headers", "version", "code"), VERSIONS.values(), ids=VERSIONS)
def test_a_version_that_is_not_served_is_refused(web, headers, version, code):
    envelope = ENVELOPE | {"io.modelcontextprotocol/protocolVersion": version}
    asked = LIST | {"params": {"_meta": envelope}}
    pairs = headers if isinstance(headers, list) else [*headers.items()]
    named = [(key if isinstance(key, bytes) else key.encode(), value) for key, value in pairs]
    response = web.post("/mcp", json=asked, headers=[*named, (b"Mcp-Method", b"tools/list")])
    assert response.status_code == 400
    answer = refusal(response)
    assert (answer["id"], answer["error"]["code"]) == (1, code)


def test_a_version_that_is_not_served_is_refused_in_a_session_too(web, session):
    headers = session | {"MCP-Protocol-Version": "1999-01-01"}
    response = web.post("/mcp", json=PING, headers=headers)
    assert (response.status_code, refusal(response)["id"]) == (400, PING["id"])


def test_a_handshake_for_an_unknown_version_is_answered_with_the_newest_that_has_one(web):
    params = INITIALIZE["params"] | {"protocolVersion": "2099-01-01"}
    response = web.post("/mcp", json=INITIALIZE | {"params": params})
    assert message(response)["result"]["protocolVersion"] == "2025-11-25"


NAMES = {
    "another method": MODERN | {"Mcp-Method": "tools/list", "Mcp-Name": "memory_get"},
    "another name": CALLING | {"Mcp-Name": "memory_set"},
    "no method": MODERN | {"Mcp-Name": "memory_get"},
    "no name": MODERN | {"Mcp-Method": "tools/call"},
    "an empty name": CALLING | {"Mcp-Name": ""},
    "two names": [*CALLING.items(), ("Mcp-Name", "memory_set")],
    "two methods": [*CALLING.items(), ("Mcp-Method", "tools/list")],
}


@pytest.mark.parametrize("headers", NAMES.values(), ids=NAMES)
def test_headers_that_do_not_say_what_the_body_says_are_refused(web, headers):
    response = web.post("/mcp", json=GET_FACT, headers=headers)
    assert response.status_code == 400
    answer = refusal(response)
    assert (answer["id"], answer["error"]["code"]) == (GET_FACT["id"], MISMATCH)


def test_headers_that_say_what_the_body_says_are_served(web):
    assert web.post("/mcp", json=GET_FACT, headers=CALLING).status_code == 200


PARAMS = {
    "none": None,
    "no envelope": {},
    "an envelope that is a list": {"_meta": []},
    "an envelope without capabilities": {
        "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    },
    "a version that is a number": {
        "_meta": ENVELOPE | {"io.modelcontextprotocol/protocolVersion": 7}
    },
}


@pytest.mark.parametrize("params", PARAMS.values(), ids=PARAMS)
def test_an_envelope_that_is_none_is_refused(web, params):
    asked = {"jsonrpc": "2.0", "id": 9, "method": "tools/list"}
    asked |= {} if params is None else {"params": params}
    response = web.post("/mcp", json=asked, headers=LISTING)
    assert response.status_code == 400
    assert refusal(response)["id"] == 9


@pytest.mark.parametrize("params", [[], "x", 7, [1]])
@pytest.mark.parametrize("era", ["session", "newer"])
def test_parameters_that_are_no_object_are_refused(web, session, params, era):
    headers = session if era == "session" else LISTING
    asked = {"jsonrpc": "2.0", "id": 9, "method": "tools/list", "params": params}
    response = web.post("/mcp", json=asked, headers=headers)
    assert (response.status_code, refusal(response)["id"]) == (400, 9)


def test_a_method_that_nobody_knows_is_an_error_in_both_eras(web, session):
    older = web.post("/mcp", json=PING | {"method": "nothing/here"}, headers=session)
    assert (older.status_code, message(older)["error"]["code"]) == (200, -32601)
    asked = modern("nothing/here")
    newer = web.post("/mcp", json=asked, headers=MODERN | {"Mcp-Method": "nothing/here"})
    assert (newer.status_code, message(newer)["error"]["code"]) == (404, -32601)


@pytest.mark.parametrize("era", [{}, MODERN])
def test_an_answer_to_nothing_is_refused(web, era):
    response = web.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "result": {}}, headers=era)
    assert response.status_code == 400
    refusal(response)


MALFORMED = {
    "deeper than anything": b'{"jsonrpc":"2.0","id":1,"method":"x","params":' + b'{"a":' * 50_000,
    "compressed": b"\x1f\x8b\x08\x00",
    "with a byte order mark": b"\xef\xbb\xbf" + json.dumps(INITIALIZE).encode(),
    "in UTF-16": json.dumps(INITIALIZE).encode("utf-16"),
    "two messages": json.dumps(INITIALIZE).encode() * 2,
    "a string": b'"initialize"',
    "null": b"null",
    "NUL": b"\x00",
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
@pytest.mark.parametrize("era", [{}, LISTING])
def test_a_body_that_is_no_message_is_a_bad_request(web, body, era):
    headers = era | {"Content-Type": "application/json"}
    response = web.post("/mcp", content=body, headers=headers)
    assert response.status_code == 400
    assert refusal(response)["error"]["code"] in {-32700, -32600}


def test_what_was_refused_has_left_the_server_as_it_was(web):
    assert TOKEN not in web.post("/mcp", content=b"{").text
    written = modern("tools/call", name="memory_list", arguments={})
    listing = MODERN | {"Mcp-Method": "tools/call", "Mcp-Name": "memory_list"}
    answer = message(web.post("/mcp", json=written, headers=listing))
    assert answer["result"]["structuredContent"]["facts"] == []
