"""The server of a store as any HTTP client meets it."""

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

from memory_store.contract import Busy, Caller, Problem, Unavailable
from memory_store.server import MAX_BODY_BYTES, READING, WAITING, WRITTEN_AT_ONCE, build_app
from memory_store.wire import OPERATIONS
from store.scripted import ScriptedStore
from store.serving import serve_in_thread

CALLER = {"principal": "p", "source_client": "c"}
GET = {"caller": CALLER, "namespace": "n", "key": "k"}


@pytest.fixture(scope="module")
def served():
    scripted = ScriptedStore()
    url, secret, stop = serve_in_thread(scripted)
    headers = {"Authorization": f"Bearer {secret}"}
    many = httpx2.Limits(max_connections=None)
    with httpx2.Client(base_url=url, headers=headers, limits=many, trust_env=False) as http:
        yield scripted, http
    stop()


@pytest.fixture
def scripted(served):
    served[0].calls.clear()
    served[0].answer = lambda **_: None
    return served[0]


@pytest.fixture
def http(served):
    return served[1]


def problem(response):
    return Problem.model_validate_json(response.content)


def ask_without_body(http, *headers):
    """Sends a head that promises a body, never the body; returns what is answered."""
    head = ["POST /fact_get HTTP/1.1", "Host: store", *headers, "", ""]
    with socket.create_connection((http.base_url.host, http.base_url.port), timeout=10) as asking:
        asking.sendall("\r\n".join(head).encode())
        return asking.recv(65536)


@pytest.mark.parametrize(
    "headers", [(), ("Authorization: Bearer wrong",), ("Authorization: Basic c2VjcmV0",)]
)
def test_a_stranger_is_refused_before_the_body_is_read(headers, http):
    answer = ask_without_body(http, "Content-Length: 1000", *headers)

    assert answer.startswith(b"HTTP/1.1 401 ")
    assert b"www-authenticate: bearer" in answer.lower()
    assert b'"code":"unauthorized"' in answer


def test_a_body_that_announces_too_much_is_refused_before_it_is_read(http):
    authorization = f"Authorization: {http.headers['authorization']}"
    answer = ask_without_body(http, f"Content-Length: {MAX_BODY_BYTES + 1}", authorization)

    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"33,554,432 bytes" in answer


def test_a_body_that_grows_too_large_is_refused(http, scripted):
    chunk = b" " * (1024 * 1024)
    response = http.post("/fact_get", content=(chunk for _ in range(33)))

    assert response.status_code == 413
    assert problem(response).code == "invalid_argument"
    assert scripted.calls == []


@pytest.mark.parametrize("path", ["/openapi.json", "/docs", "/stats", "/nothing", "/healthz/"])
def test_only_health_is_open(path, http):
    assert httpx2.get(f"{http.base_url}{path}", trust_env=False).status_code == 401


def test_health_needs_no_secret(http):
    response = httpx2.get(f"{http.base_url}/healthz", trust_env=False)

    assert (response.status_code, response.json()) == (200, {"status": "ok"})


def test_an_unknown_argument_is_named(http, scripted):
    response = http.post("/fact_get", json=GET | {"colour": "red"})

    assert response.status_code == 422
    assert (problem(response).code, problem(response).argument) == ("invalid_argument", "colour")
    assert scripted.calls == []


@pytest.mark.parametrize(
    ("argument", "wrong"), [("key", 5), ("namespace", None), ("at", "yesterday"), ("caller", "me")]
)
def test_an_argument_of_the_wrong_type_is_named(argument, wrong, http, scripted):
    response = http.post("/fact_get", json=GET | {argument: wrong})

    assert (response.status_code, problem(response).argument) == (422, argument)
    assert scripted.calls == []


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff\xfe", b'{"key": "\\ud800"}'])
def test_a_body_that_is_no_object_is_refused(body, http):
    response = http.post("/fact_get", content=body)

    assert response.status_code == 422
    assert "not a JSON object" in problem(response).message


def test_arguments_left_out_are_those_of_the_contract(http, scripted):
    http.post("/fact_get", json=GET)

    assert scripted.calls == [("fact_get", GET | {"caller": Caller(**CALLER), "at": None})]


@pytest.mark.parametrize("kind", [Busy, Unavailable])
def test_what_is_worth_trying_again_says_when(kind, http, scripted):
    def answer(**_):
        raise kind("Try again.")

    scripted.answer = answer
    response = http.post("/fact_get", json=GET)

    assert response.status_code == 503
    assert response.headers["retry-after"] == "1"
    assert problem(response).retryable


def test_writes_that_wait_for_the_lock_keep_no_read_waiting(http, scripted):
    let_go = threading.Event()
    scripted.answer = lambda **asked: let_go.wait(10) and None if "write" in asked else None
    write = {"caller": CALLER, "write": {"key": "k", "value": "v"}}
    with ThreadPoolExecutor(WRITTEN_AT_ONCE) as threads:
        for _ in range(WRITTEN_AT_ONCE):
            threads.submit(http.post, "/fact_set", json=write)
        deadline = time.monotonic() + 10
        while len(scripted.calls) < WRITTEN_AT_ONCE:
            assert time.monotonic() < deadline, "the writes did not arrive"
            time.sleep(0.01)
        headers = {"Authorization": http.headers["authorization"]}
        url = f"{http.base_url}/fact_get"
        assert httpx2.post(url, json=GET, headers=headers, trust_env=False).status_code == 200
        assert not let_go.is_set()
        let_go.set()


@pytest.mark.parametrize(("method", "path"), [("POST", "/fact_forget"), ("GET", "/fact_get")])
def test_an_operation_that_is_not_there_is_no_missing_fact(method, path, http):
    response = http.request(method, path)

    assert response.status_code == 404
    assert problem(response).code == "unknown_operation"


def test_the_document_has_every_operation_its_words_and_its_lock(http):
    document = http.get("/openapi.json").json()
    assert document["openapi"].startswith("3.")
    assert set(document["paths"]) == {f"/{name}" for name in OPERATIONS} | {"/healthz"}
    for name in OPERATIONS:
        operation = document["paths"][f"/{name}"]["post"]
        assert operation["operationId"] == name
        assert operation["description"]
        assert operation["security"] == [{"HTTPBearer": []}]
        assert {"200", "401", "404", "409", "413", "422", "500", "503"} == set(
            operation["responses"]
        )
    assert "security" not in document["paths"]["/healthz"]["get"]
    assert document["components"]["securitySchemes"]["HTTPBearer"]["scheme"] == "bearer"
    assert {"FactWrite", "Fact", "Problem", "Stats"} <= set(document["components"]["schemas"])


def references(part):
    if isinstance(part, dict):
        yield from ([part["$ref"]] if "$ref" in part else [])
        part = list(part.values())
    if isinstance(part, list):
        for inner in part:
            yield from references(inner)


def test_every_reference_of_the_document_leads_somewhere(http):
    document = http.get("/openapi.json").json()
    schemas = document["components"]["schemas"]
    found = set(references(document))

    assert "#/components/schemas/FactSetArguments" in found
    assert {it.removeprefix("#/components/schemas/") for it in found} <= set(schemas)
    assert schemas["FactSetArguments"]["additionalProperties"] is False


def test_the_operations_that_are_told_apart_are_those_of_the_contract():
    assert set(OPERATIONS) >= READING | WAITING
    assert not READING & WAITING


def test_a_store_is_not_served_without_a_secret():
    with pytest.raises(ValueError, match="secret"):
        build_app(ScriptedStore(), "")
