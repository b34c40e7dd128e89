"""Tokens, namespaces and counts over plain HTTP, and what a token may ask for."""

import time

import pytest

from gateway_serving import SECONDS, http_server
from http_interface import client, problem, set_fact


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with http_server(tmp_path_factory.mktemp("tokens") / "memory.db") as server:
        yield server


@pytest.fixture(scope="module")
def web(served):
    with client(served.url) as web:
        yield web


@pytest.fixture
def holder(served, web):
    """Makes a client that holds a token of its own."""
    clients = []

    def hold(name, *scopes, namespaces=None):
        grant = {"name": name, "scopes": scopes, "namespaces": namespaces, "expires_at": None}
        secret = web.post("/tokens", json=grant).json()["secret"]
        clients.append(client(served.url, Authorization=f"Bearer {secret}"))
        return clients[-1]

    yield hold
    for each in clients:
        each.close()


def test_a_token_is_made_listed_rotated_and_revoked(web):
    grant = {"name": "ci one", "scopes": ["read"], "namespaces": ["ci"]}
    made = web.post("/tokens", json=grant | {"expires_at": "2999-01-01T00:00:00+01:00"})
    assert made.status_code == 201
    token, secret = made.json()["token"], made.json()["secret"]
    assert token["expires_at"] == "2998-12-31T23:00:00.000Z"
    assert made.headers["cache-control"] == "no-store"
    listed = web.get("/tokens")
    assert token in listed.json()["tokens"]
    assert secret not in listed.text
    rotated = web.post("/tokens/ci%20one/rotate", json={"overlap_seconds": 0}).json()
    assert rotated["secret"] != secret
    assert web.post("/tokens/ci%20one/rotate").status_code == 200
    revoked = web.delete("/tokens/ci%20one")
    assert revoked.json()["revoked_at"]
    assert web.delete("/tokens/ci%20one").json() == revoked.json()
    problem(web.post("/tokens/ci%20one/rotate"), 404, "not_found")
    problem(web.delete("/tokens/nobody"), 404, "not_found")
    problem(web.post("/tokens", json=grant), 409, "conflict")


@pytest.mark.parametrize("name", ["a/b", ".", "..", ".hidden", ""])
def test_a_name_that_no_address_can_hold_is_refused(web, name):
    refused = web.post("/tokens", json={"name": name, "scopes": ["read"]})
    assert problem(refused, 422, "invalid_argument")["argument"] == "name"


@pytest.mark.parametrize(
    ("grant", "argument"),
    [
        ({"scopes": []}, "scopes"),
        ({"scopes": ["all"]}, "scopes"),
        ({"scopes": "read"}, "scopes"),
        ({"namespaces": []}, "namespaces"),
        ({"expires_at": "2001-01-01T00:00:00Z"}, "expires_at"),
        ({"expires_at": 4_000_000_000}, "expires_at"),
        ({"secret": "mine"}, "secret"),
    ],
)
def test_a_grant_that_is_not_allowed_is_named(web, grant, argument):
    refused = web.post("/tokens", json={"name": "x", "scopes": ["read"]} | grant)
    assert problem(refused, 422, "invalid_argument")["argument"] == argument


def test_a_token_goes_by_its_own_name_whatever_it_says(holder):
    fact = set_fact(holder("honest", "write"), "own", "v", Memory_Client_Id="somebody").json()
    assert (fact["source_client"], fact["self_reported"]) == ("honest", False)
    assert fact["principal"] == "token:honest"


READS = [
    ("GET", "/facts"),
    ("GET", "/fact?key=k"),
    ("POST", "/facts/get", {"keys": ["k"]}),
    ("GET", "/search?query=q"),
    ("POST", "/search", {"query": "q"}),
    ("GET", "/events?namespace=default"),
    ("GET", "/stats?namespace=default"),
]
WRITES = [
    ("PUT", "/fact?key=k", {"value": "v"}),
    ("DELETE", "/fact?key=k"),
    ("POST", "/fact/restore?key=k&version=1"),
    ("POST", "/facts/set", {"writes": [{"key": "k", "value": "v"}]}),
]
ADMINISTERS = [
    ("PATCH", "/namespace?namespace=default", {"name": "elsewhere"}),
    ("DELETE", "/namespace?namespace=default&expected_facts=0"),
    ("GET", "/tokens"),
    ("POST", "/tokens", {"name": "x", "scopes": ["read"]}),
    ("DELETE", "/tokens/x"),
    ("POST", "/tokens/x/rotate"),
]


def ask(web, method, path, body=None):
    return web.request(method, path, json=body)


def test_a_scope_that_is_not_held_is_refused_everywhere(holder):
    reader, writer = holder("reader", "read"), holder("writer", "write")
    for call in WRITES + ADMINISTERS:
        problem(ask(reader, *call), 403, "forbidden")
    for call in ADMINISTERS:
        problem(ask(writer, *call), 403, "forbidden")
    for call in READS:
        assert ask(reader, *call).status_code in {200, 404}


def test_a_namespace_out_of_reach_is_refused_everywhere(holder):
    bound = holder("bound", "admin", namespaces=["mine"])
    for call in READS + WRITES + ADMINISTERS:
        problem(ask(bound, *call), 403, "forbidden")
    for everywhere in ("/events", "/stats"):
        assert "mine" in problem(bound.get(everywhere), 403, "forbidden")["detail"]
    bound.put("/fact?key=k&namespace=mine", json={"value": "v"})
    assert bound.get("/namespaces").json() == {"namespaces": [{"name": "mine", "facts": 1}]}


def test_a_revoked_token_opens_nothing(holder, web):
    gone = holder("gone", "read")
    assert gone.get("/version").status_code == 200
    web.delete("/tokens/gone")
    deadline = time.monotonic() + SECONDS
    while (refused := gone.get("/version")).status_code != 401:
        assert time.monotonic() < deadline
    problem(refused, 401, "unauthorized")
    assert "invalid_token" in refused.headers["www-authenticate"]


def test_a_namespace_gets_another_name_and_keeps_what_it_holds(web):
    old, new = {"namespace": "a/../b"}, {"namespace": "new 🦉"}
    web.put("/fact", params={"key": "k"} | old, json={"value": "v"})
    renamed = web.patch("/namespace", params=old, json={"name": "new 🦉"})
    assert renamed.json() == {"name": "new 🦉", "facts": 1}
    assert web.get("/fact", params={"key": "k"} | new).json()["value"] == "v"
    problem(web.patch("/namespace", params=old, json={"name": "x"}), 404, "not_found")
    web.put("/fact", params={"key": "k"} | old, json={"value": "v"})
    problem(web.patch("/namespace", params=old, json={"name": "new 🦉"}), 409, "conflict")


def test_a_namespace_is_deleted_by_who_knows_how_much_is_in_it(web):
    namespace = {"namespace": "doomed"}
    for key in ("1", "2"):
        web.put("/fact", params={"key": key} | namespace, json={"value": "v"})
    missing = problem(web.delete("/namespace", params=namespace), 422, "invalid_argument")
    assert missing["argument"] == "expected_facts"
    wrong = web.delete("/namespace", params=namespace | {"expected_facts": 1})
    assert "holds 2 facts, not 1" in problem(wrong, 409, "conflict")["detail"]
    right = web.delete("/namespace", params=namespace | {"expected_facts": 2})
    assert right.json() == {"deleted": 2}
    gone = web.delete("/namespace", params={"namespace": "nowhere", "expected_facts": 0})
    problem(gone, 404, "not_found")


def test_counts_and_versions_are_told(web):
    set_fact(web, "counted", "v")
    stats = web.get("/stats").json()
    assert stats["facts"] >= 1
    assert web.get("/stats?namespace=none").json()["facts"] == 0
    version = web.get("/version").json()
    assert version == {"name": "memory-bridge", "version": stats["server_version"]}
