"""What is no JSON-RPC message, over HTTP and on stdio: one sentence, and the id where it shows."""

import json

import anyio
import httpx2
import pytest

from gateway_serving import (
    ACCEPT,
    AUTHORIZED,
    INITIALIZE,
    MODERN,
    SECONDS,
    http_server,
    message,
    stdio_server,
)
from memory_gateway.bodies import MessageBodies
from memory_gateway.frames import LineReader, Unreadable

SECRET = "a-secret-in-the-input"
JSON = {"Content-Type": "application/json"}
CALL = b'"method":"tools/call","params":{"name":"memory_set","arguments":{"key":"k","value":"v"}}'
NO_MESSAGES = {
    "a batch": (b"[]", None),
    "a method that is a number": (b'{"method":5,"x":"a-secret-in-the-input","id":7}', None),
    "no method": (b'{"jsonrpc":"2.0","id":7}', 7),
    "cut": (b'{"jsonrpc":"2.0","id":"a","method":"a-secret-in-the-inp', "a"),
    "a number without end": (b'{"jsonrpc":"2.0","id":7,"params":{"n":' + b"9" * 5000 + b"}}", 7),
    "nothing": (b"", None),
    "not UTF-8": (b"\xff\xfe", None),
}
BAD_IDS = [b"null", b"1.5", b"true", b"{}", b"[1]"]


@pytest.fixture(scope="module")
def web(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bodies")
    headers = AUTHORIZED | ACCEPT | JSON
    with (
        http_server(folder / "memory.db") as server,
        httpx2.Client(
            base_url=server.url.removesuffix("/mcp"), timeout=SECONDS, headers=headers
        ) as web,
    ):
        yield web


@pytest.fixture
def session(web):
    opened = web.post("/mcp", json=INITIALIZE)
    return {"Mcp-Session-Id": opened.headers["mcp-session-id"]}


def is_one_sentence(text):
    return text.endswith(".") and "\n" not in text and len(text) < 200 and ". " not in text[3:]


@pytest.mark.parametrize("modern", [False, True])
@pytest.mark.parametrize(("body", "number"), NO_MESSAGES.values(), ids=NO_MESSAGES)
def test_what_is_no_message_is_refused_in_a_sentence_with_its_id(
    web, session, body, number, modern
):
    response = web.post("/mcp", content=body, headers=MODERN if modern else session)
    answer = response.json()
    assert response.status_code == 400
    assert answer["id"] == number
    assert answer["error"]["code"] in {-32700, -32600}
    assert SECRET not in response.text
    assert "pydantic" not in response.text
    assert is_one_sentence(answer["error"]["message"]), answer


@pytest.mark.parametrize("identifier", BAD_IDS)
def test_a_request_whose_id_is_none_is_refused_and_not_done(web, session, identifier):
    body = b'{"jsonrpc":"2.0","id":' + identifier + b"," + CALL + b"}"
    response = web.post("/mcp", content=body, headers=session)
    assert response.status_code == 400
    assert response.json()["error"]["code"] == -32600
    [frame] = LineReader().feed(body + b"\n")
    assert isinstance(frame, Unreadable)
    assert frame.answer.error.code == -32600
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "memory_list"}}
    listed = message(web.post("/mcp", json=listing, headers=session))
    assert listed["result"]["structuredContent"]["facts"] == []


def test_on_stdio_a_request_whose_id_is_none_is_answered_and_not_done(tmp_path):
    with stdio_server(tmp_path / "memory.db") as server:
        server.initialize()
        for identifier in BAD_IDS:
            server.say(b'{"jsonrpc":"2.0","id":' + identifier + b"," + CALL + b"}")
            answer = server.answer()
            assert (answer["id"], answer["error"]["code"]) == (None, -32600)
        server.call(1, "memory_list")
        assert server.answer()["result"]["structuredContent"]["facts"] == []


def test_a_refusal_of_a_message_that_was_read_carries_its_id(web):
    response = web.post("/mcp", json=INITIALIZE | {"id": 71}, headers={"Accept": "image/png"})
    assert (response.status_code, response.json()["id"]) == (406, 71)


@pytest.mark.parametrize("kind", ["APPLICATION/JSON", "Application/Json; Charset=UTF-8"])
def test_a_content_type_may_be_in_capitals(web, kind):
    headers = {"Content-Type": kind}
    response = web.post("/mcp", content=json.dumps(INITIALIZE), headers=headers)
    assert response.status_code == 200


async def receive_nothing():
    await anyio.sleep_forever()


@pytest.mark.anyio
async def test_a_body_that_does_not_come_is_refused():
    sent = []

    async def send(part):
        sent.append(part)

    async def unreached(*_arguments):
        raise AssertionError

    kind = [(b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": kind}
    await MessageBodies(unreached, 100, seconds=0.05)(scope, receive_nothing, send)

    assert sent[0]["status"] == 408
    assert "error" in json.loads(sent[1]["body"])
