"""Events over HTTP as they happen: whole, in order, within reach, and from where one left off."""

import asyncio
import json
import signal
import threading
from contextlib import closing

import httpx2
import pytest

from event_streams import PATH, following
from gateway_serving import (
    ACCEPT,
    AUTHORIZED,
    INITIALIZE,
    MODERN,
    SECONDS,
    http_server,
    message,
    modern,
)
from memory_gateway.api.stream import MOST_EVENTS, TOO_SLOW, Buffer
from memory_gateway.live import News
from memory_store.contract import Caller, FactWrite, TokenGrant
from memory_store.opening import open_store
from memory_store.settings import StoreSettings

CALLER = Caller(principal="local", source_client="another process")


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    return tmp_path_factory.mktemp("streams") / "memory.db"


@pytest.fixture(scope="module")
def server(database):
    with http_server(database) as server:
        yield server


@pytest.fixture(scope="module")
def store(database):
    """The same memory as another process has it."""
    with closing(open_store(StoreSettings(memory_db=database))) as store:
        yield store


def refused(server, headers=AUTHORIZED, **query):
    base = server.url.removesuffix("/mcp")
    response = httpx2.get(f"{base}{PATH}", headers=headers, params=query, timeout=SECONDS)
    return response.status_code, response.json()


def test_events_arrive_whole_and_in_order(server, store):
    with following(server) as follower:
        for value in ("1", "2"):
            store.fact_set(CALLER, FactWrite(key="k", value=value))
        store.fact_delete(CALLER, "default", "k")
        first, second, third = (follower.event() for _ in range(3))
    newest = store.event_list("default", "k").events
    assert [third, second, first] == [event.model_dump(mode="json") for event in newest[:3]]


def test_a_filter_lets_through_what_is_asked_for(server, store):
    query = {"namespace": "mine", "prefix": "a/", "kinds": ["set", "delete"]}
    with following(server, **query) as follower:
        store.fact_set(CALLER, FactWrite(key="a/1", value="v"))
        store.fact_set(CALLER, FactWrite(namespace="mine", key="b/1", value="v"))
        store.fact_set(CALLER, FactWrite(namespace="mine", key="a/1", value="v"))
        store.fact_restore(CALLER, "mine", "a/1", 1)
        store.fact_delete(CALLER, "mine", "a/1")
        assert [follower.event()["kind"], follower.event()["kind"]] == ["set", "delete"]


@pytest.mark.parametrize("query", [{"include_reads": "true"}, {"kinds": "get"}])
def test_reads_are_told_to_who_asks_for_them(server, store, query):
    with following(server, **query) as follower:
        store.fact_get(CALLER, "default", "read")
        event = follower.event()
    assert (event["kind"], event["key"]) == ("get", "read")


def test_a_stream_goes_on_after_the_last_event_that_arrived(server, store):
    with following(server, namespace="on") as follower:
        store.fact_set(CALLER, FactWrite(namespace="on", key="first", value="v"))
        assert follower.keys(1) == ["first"]
    for number in range(250):
        store.fact_set(CALLER, FactWrite(namespace="on", key=f"missed {number}", value="v"))
    missed = [f"missed {number}" for number in range(250)]
    with following(server, last_event_id=follower.last_id, namespace="on") as again:
        assert again.keys(250) == missed
        store.fact_set(CALLER, FactWrite(namespace="on", key="live", value="v"))
        assert again.keys(1) == ["live"]
    with following(server, after=follower.last_id, namespace="on") as later:
        assert later.keys(251) == [*missed, "live"]


def test_the_last_event_id_stands_above_the_address(server, store):
    with following(server, namespace="twice") as follower:
        for key in ("1", "2", "3"):
            store.fact_set(CALLER, FactWrite(namespace="twice", key=key, value="v"))
        first = follower.block()["id"]
        second = follower.block()["id"]
    with following(server, last_event_id=second, after=first, namespace="twice") as again:
        assert again.keys(1) == ["3"]


def test_nothing_is_missed_or_told_twice_while_catching_up_under_writes(server, store):
    before = store.event_follow(None).after
    writing = threading.Thread(
        target=lambda: [
            store.fact_set(CALLER, FactWrite(namespace="storm", key=str(number), value="v"))
            for number in range(400)
        ]
    )
    writing.start()
    with following(server, after=str(before), namespace="storm") as follower:
        assert follower.keys(400) == [str(number) for number in range(400)]
    writing.join(SECONDS)


@pytest.mark.parametrize(
    ("query", "argument"),
    [
        ({"nmaespace": "x"}, "nmaespace"),
        ({"kinds": "write"}, "kinds"),
        ({"after": "yesterday"}, "after"),
        ({"after": "-1"}, "after"),
        ({"include_reads": "1"}, "include_reads"),
        ({"prefix": ["a", "b"]}, "prefix"),
    ],
)
def test_a_query_that_is_not_understood_is_refused(server, query, argument):
    status, problem = refused(server, **query)
    assert (status, problem["argument"]) == (422, argument)


def test_a_last_event_id_that_is_none_is_refused(server):
    status, _ = refused(server, AUTHORIZED | {"Last-Event-ID": "x"})
    assert status == 422


@pytest.fixture
def token(store, request):
    name = request.node.name
    grant = TokenGrant(name=name, scopes=("read",), namespaces=("mine", "ours"))
    yield store.token_create(CALLER, grant).secret
    store.token_revoke(CALLER, name)


def test_a_stream_tells_nothing_of_namespaces_out_of_reach(server, store, token):
    before = store.event_follow(None).after
    with following(server, token) as live:
        for namespace in ("theirs", "ours", "default", "mine", "theirs"):
            store.fact_set(CALLER, FactWrite(namespace=namespace, key=namespace, value="v"))
        assert live.keys(2) == ["ours", "mine"]
    with following(server, token, after=str(before)) as caught_up:
        assert caught_up.keys(2) == ["ours", "mine"]


def test_a_listen_stream_is_granted_what_is_within_reach_and_tells_of_nothing_else(
    server, store, token
):
    headers = {"Authorization": f"Bearer {token}"} | ACCEPT | MODERN
    uris = ["memory://theirs/k", "memory://ours/k"]
    wanted = {"resourcesListChanged": True, "resourceSubscriptions": uris}
    listen = modern("subscriptions/listen", notifications=wanted)
    method = {"Mcp-Method": "subscriptions/listen"}
    with (
        httpx2.Client(timeout=SECONDS, headers=headers) as web,
        web.stream("POST", server.url, json=listen, headers=method) as stream,
    ):
        said = (json.loads(it[6:]) for it in stream.iter_lines() if it.startswith("data: "))
        honored = next(said)["params"]["notifications"]
        assert honored["resourceSubscriptions"] == ["memory://ours/k"]
        for namespace in ("theirs", "ours"):
            store.fact_set(CALLER, FactWrite(namespace=namespace, key="k", value="v"))
        heard = [next(said)["params"].get("uri"), next(said)["params"].get("uri")]
    assert heard == ["memory://ours/k", None]


def test_a_session_may_not_subscribe_to_what_is_out_of_reach(server, token):
    headers = {"Authorization": f"Bearer {token}"} | ACCEPT
    subscribe = {"jsonrpc": "2.0", "id": 2, "method": "resources/subscribe"}
    with httpx2.Client(timeout=SECONDS, headers=headers) as web:
        opened = web.post(server.url, json=INITIALIZE)
        session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
        asked = subscribe | {"params": {"uri": "memory://theirs/k"}}
        answer = message(web.post(server.url, json=asked, headers=session))
    assert answer["error"]["code"] == -32602
    assert "does not reach this namespace" in answer["error"]["message"]


def test_what_was_missed_in_several_namespaces_comes_in_order(server, store, token):
    before = store.event_follow(None).after
    expected = [f"{number}" for number in range(150)]
    for number in expected:
        namespace = "mine" if int(number) % 7 else "ours"
        store.fact_set(CALLER, FactWrite(namespace=namespace, key=number, value="v"))
    with following(server, token, after=str(before)) as follower:
        assert follower.keys(150) == expected


def test_a_namespace_out_of_reach_is_refused(server, token):
    headers = {"Authorization": f"Bearer {token}"}
    status, problem = refused(server, headers, namespace="theirs")
    assert (status, problem["code"]) == (403, "forbidden")


def test_without_a_token_there_is_no_stream(server):
    assert refused(server, {})[0] == 401


def test_a_stream_ends_with_its_token(server, store):
    secret = store.token_create(CALLER, TokenGrant(name="short", scopes=("read",))).secret
    with following(server, secret) as follower:
        store.token_revoke(CALLER, "short")
        while follower.block() is not None:
            pass


def test_a_server_that_stops_says_so_on_its_streams(tmp_path):
    with http_server(tmp_path / "memory.db") as server, following(server) as follower:
        server.process.send_signal(signal.SIGTERM)
        block = follower.block()
        assert block["event"] == "dropped"
        assert "stopping" in json.loads(block["data"])["reason"]
        assert server.process.wait(SECONDS) == 0


@pytest.mark.anyio
async def test_a_buffer_that_is_full_ends_with_the_reason_and_keeps_nothing(store):
    store.fact_set(CALLER, FactWrite(key="k", value="v"))
    news = News(store.event_list("default").events[0])
    buffer = Buffer()
    for _ in range(MOST_EVENTS + 1):
        buffer.put(news)
    assert (buffer.ended, len(buffer)) == (TOO_SLOW, 0)
    assert await asyncio.wait_for(buffer.take(), SECONDS) is None
