"""Every refusal of the HTTP interface is a problem with a sentence; none of them is a 500."""

import json
import socket

import anyio
import httpx2
import pytest

from fakes import FailingStore
from gateway_serving import AUTHORIZED, SECONDS, TOKEN, http_server
from http_interface import API, PROBLEM, client, interface, problem, set_fact
from lock_holder import lock_held
from memory_embedder.client import NoEmbedder
from memory_gateway.api.interface import HttpInterface
from memory_gateway.bodies import BoundedBodies
from memory_gateway.calls import Calls
from memory_gateway.memory import Memory
from memory_gateway.principals import INSTALLATION, PRINCIPAL
from memory_store.contract import Unavailable

JSON = {"Content-Type": "application/json"}
PUT = "/fact?key=k"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with http_server(tmp_path_factory.mktemp("errors") / "memory.db") as server:
        yield server


@pytest.fixture(scope="module")
def web(served):
    with client(served.url) as web:
        yield web


NO_JSON = {
    "nothing": b"",
    "a part": b'{"value":',
    "text after it": b'{"value":"v"} x',
    "a name twice": b'{"value":"v","value":"w"}',
    "a name twice inside": b'{"value":"v","metadata":{"a":{"b":1,"b":1}}}',
    "NaN": b'{"value":"v","metadata":{"n":NaN}}',
    "infinity": b'{"value":"v","ttl_seconds":-Infinity}',
    "a number beyond a float": b'{"value":"v","metadata":{"n":1e999}}',
    "a number without end": b'{"value":"v","metadata":{"n":' + b"9" * 5_000 + b"}}",
    "a lone surrogate": rb'{"value":"\ud800"}',
    "a lone surrogate in a name": rb'{"value":"v","metadata":{"\udfff":1}}',
    "another encoding": '{"value":"v"}'.encode("utf-16"),
    "a byte order mark": b'\xef\xbb\xbf{"value":"v"}',
    "no UTF-8": b'{"value":"\xff"}',
    "too deep": b'{"value":"v","metadata":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
    "a list": b"[]",
    "a text": b'"v"',
    "null": b"null",
}


@pytest.mark.parametrize("body", NO_JSON.values(), ids=NO_JSON)
def test_what_is_no_json_object_is_refused(web, body):
    problem(web.put(PUT, content=body, headers=JSON), 422, "invalid_argument")


NOT_ALLOWED = {
    "an unknown field": ({"value": "v", "vlaue": "w"}, "vlaue"),
    "a missing field": ({}, "value"),
    "a number for a text": ({"value": 1}, "value"),
    "null for a text": ({"value": None}, "value"),
    "a NUL": ({"value": "\0"}, "value"),
    "a value too long": ({"value": "x" * 16_385}, "value"),
    "a text for a list": ({"value": "v", "tags": "t"}, "tags"),
    "a number among tags": ({"value": "v", "tags": ["t", 1]}, "tags"),
    "too many tags": ({"value": "v", "tags": ["t"] * 65}, "tags"),
    "an empty tag": ({"value": "v", "tags": [""]}, "tags"),
    "metadata that is a list": ({"value": "v", "metadata": []}, "metadata"),
    "metadata too long": ({"value": "v", "metadata": {"a": "x" * 16_384}}, "metadata"),
    "a text for a number": ({"value": "v", "ttl_seconds": "1"}, "ttl_seconds"),
    "a truth for a number": ({"value": "v", "ttl_seconds": True}, "ttl_seconds"),
    "no time to live": ({"value": "v", "ttl_seconds": 0}, "ttl_seconds"),
}


@pytest.mark.parametrize(("body", "argument"), NOT_ALLOWED.values(), ids=NOT_ALLOWED)
def test_a_field_that_is_not_allowed_is_named(web, body, argument):
    told = problem(web.put(PUT, json=body), 422, "invalid_argument")
    assert told["argument"] == argument
    assert argument in told["detail"]


def test_metadata_that_is_too_deep_is_refused(web):
    deep = b'{"value":"v","metadata":{"a":' + b"[" * 50 + b"]" * 50 + b"}}"
    told = problem(web.put(PUT, content=deep, headers=JSON), 422, "invalid_argument")
    assert told["argument"] == "metadata"


@pytest.mark.parametrize("key", ["", "k" * 257, "\0"])
def test_a_key_that_is_none_is_named(web, key):
    assert problem(set_fact(web, key, "v"), 422, "invalid_argument")["argument"] == "key"
    assert (
        problem(web.put("/fact", json={"value": "v"}), 422, "invalid_argument")["argument"] == "key"
    )


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "", "*/*"])
def test_a_body_that_does_not_say_it_is_json_is_refused(web, kind):
    response = web.put(PUT, content=b'{"value":"v"}', headers={"Content-Type": kind})
    problem(response, 415, "unsupported_media_type")


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/JSON"])
def test_json_may_be_said_in_any_way(web, kind):
    response = web.put(PUT, content=b'{"value":"v"}', headers={"Content-Type": kind})
    assert response.status_code in {200, 201}


def test_what_is_too_large_is_refused_with_and_without_its_length(web):
    body = b'{"value":"' + b"x" * (5 * 1024 * 1024) + b'"}'
    for content in (body, iter([body])):
        problem(web.put(PUT, content=content, headers=JSON), 413, "body_too_large")


@pytest.mark.parametrize("method", ["PATCH", "POST", "OPTIONS", "TRACE"])
def test_a_method_that_is_not_served_is_refused_with_those_that_are(web, method):
    response = web.request(method, "/fact?key=k")
    told = problem(response, 405, "method_not_allowed")
    assert response.headers["allow"] == "DELETE, GET, HEAD, PUT"
    assert "DELETE, GET, HEAD, PUT" in told["detail"]


def test_allow_names_the_methods_of_paths_with_names_in_them_too(web):
    assert web.get("/tokens/x").headers["allow"] == "DELETE"
    assert web.get("/tokens/x/rotate").headers["allow"] == "POST"
    assert web.post("/openapi.json").headers["allow"] == "GET, HEAD"


def test_a_head_of_the_stream_is_refused_since_it_would_never_end(web):
    for method in ("HEAD", "POST"):
        refused = web.request(method, "/events/stream")
        assert (refused.status_code, refused.headers["allow"]) == (405, "GET")


@pytest.mark.parametrize("path", ["/api", "/api/", "/api/v1", "/api/v2/facts", "/api/v1/nothing"])
def test_where_nothing_is_that_is_said(served, path):
    told = httpx2.get(served.url.removesuffix("/mcp") + path, headers=AUTHORIZED)
    assert "/api/v1/openapi.json" in problem(told, 404, "not_found")["detail"]
    slash = httpx2.get(f"{served.url.removesuffix('/mcp')}{API}/facts/", headers=AUTHORIZED)
    problem(slash, 404, "not_found")


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"Authorization": ""}, 401, "unauthorized"),
        ({"Authorization": "Bearer wrong"}, 401, "unauthorized"),
        ({"Authorization": f"Basic {TOKEN}"}, 401, "unauthorized"),
        ({"Host": "evil.example"}, 421, "host_not_served"),
        ({"Origin": "https://evil.example"}, 403, "forbidden"),
    ],
)
def test_the_door_refuses_with_problems_too(served, headers, status, code):
    with client(served.url, **headers) as stranger:
        for response in (stranger.get("/version"), stranger.put(PUT, json={"value": "v"})):
            told = problem(response, status, code)
            assert TOKEN not in json.dumps(told)
            assert (status == 401) == ("www-authenticate" in response.headers)


def test_elsewhere_the_door_still_refuses_in_json_rpc(served):
    refused = httpx2.post(served.url, json={})
    assert refused.json()["error"]["message"]


def test_a_refusal_does_not_wait_for_the_body(served):
    request = (
        f"PUT {API}/fact?key=k HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: 3000000\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", served.port), timeout=SECONDS) as connection:
        connection.sendall(request.encode())
        answer = connection.recv(4096)
    assert b" 401 " in answer
    assert PROBLEM.encode() in answer


def test_who_asks_too_fast_is_told_when_to_come_again(tmp_path):
    settings = {"MCP_RATE_PER_SECOND": "0.001", "MCP_RATE_BURST": "2"}
    with interface(tmp_path / "memory.db", **settings) as web:
        statuses = [web.get("/version").status_code for _ in range(2)]
        refused = web.get("/version")
    assert statuses == [200, 200]
    assert problem(refused, 429, "too_many_requests")["retryable"]
    assert int(refused.headers["retry-after"]) > 0


def test_a_memory_that_another_process_writes_to_is_busy_and_may_be_tried_again(tmp_path):
    path = tmp_path / "memory.db"
    with interface(path, MCP_SQLITE_BUSY_TIMEOUT="50") as web:
        set_fact(web, "k", "v")
        with lock_held(path) as let_go:
            refused = set_fact(web, "k", "w")
            assert web.get("/fact?key=k").json()["value"] == "v"
            let_go()
        assert set_fact(web, "k", "w").status_code == 200
    assert problem(refused, 503, "busy")["retryable"]
    assert refused.headers["retry-after"] == "1"


async def asked_of_a_store_that_fails(error):
    """The answers of an interface over such a store, to a read, a write and a search."""
    interface = HttpInterface(Calls(Memory(FailingStore(error), NoEmbedder("off")), None))

    async def admitted(scope, receive, send):
        await interface({**scope, PRINCIPAL: INSTALLATION}, receive, send)

    transport = httpx2.ASGITransport(admitted)
    async with httpx2.AsyncClient(transport=transport, base_url=f"http://here{API}") as web:
        return [
            await web.get("/fact?key=k"),
            await web.put("/fact?key=k", json={"value": "v"}),
            await web.get("/search?query=q"),
        ]


@pytest.mark.anyio
async def test_a_fault_of_the_store_leaks_nothing():
    for response in await asked_of_a_store_that_fails(RuntimeError("SELECT in /secret/memory.db")):
        told = response.json()
        assert (response.status_code, told["code"], told["retryable"]) == (500, "internal", False)
        assert "its log has request" in told["detail"]
        assert "secret" not in response.text
        assert "SELECT" not in response.text


@pytest.mark.anyio
async def test_a_store_that_cannot_be_reached_is_told_as_that():
    for response in await asked_of_a_store_that_fails(Unavailable("The store is not there.")):
        told = response.json()
        assert (response.status_code, told["code"], told["retryable"]) == (503, "unavailable", True)
        assert response.headers["retry-after"] == "1"
        assert response.headers["cache-control"] == "no-store"


@pytest.mark.anyio
async def test_a_body_that_does_not_come_is_a_problem():
    sent = []

    async def nothing():
        await anyio.sleep_forever()

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "PUT", "path": f"{API}/fact", "headers": []}
    await BoundedBodies(None, 100, seconds=0.05)(scope, nothing, send)

    assert sent[0]["status"] == 408
    assert json.loads(sent[1]["body"])["code"] == "body_too_slow"


def test_a_token_in_the_query_opens_nothing(served):
    refused = httpx2.get(f"{served.url.removesuffix('/mcp')}{API}/version?token={TOKEN}")
    assert TOKEN not in json.dumps(problem(refused, 401, "unauthorized"))
