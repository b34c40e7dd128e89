"""Lists over plain HTTP: pages that stay stable, what is found, and the trail."""

import time
from urllib.parse import urlsplit

import pytest

from gateway_serving import SECONDS
from http_interface import interface, next_page, problem, set_fact


@pytest.fixture(scope="module")
def web(tmp_path_factory):
    with interface(tmp_path_factory.mktemp("lists") / "memory.db") as web:
        yield web


def write(web, namespace, keys, **more):
    writes = [{"key": key, "value": f"value of {key}", **more} for key in keys]
    outcomes = web.post("/facts/set", json={"namespace": namespace, "writes": writes}).json()
    assert all(outcome["fact"] for outcome in outcomes["outcomes"])


def walk(web, path, **parameters):
    """Every page, the way the `Link` headers lead."""
    response = web.get(path, params=parameters)
    yield response
    while following := next_page(response):
        response = web.get(f"{web.base_url.copy_with(path='')}{following}")
        yield response


def test_links_lead_through_all_pages_in_order(web):
    keys = sorted(f"a&b=c/🦉 {number:03}" for number in range(25))
    write(web, "pages", keys)
    pages = list(walk(web, "/facts", namespace="pages", prefix="a&b=c/🦉", limit=10))
    assert [len(page.json()["facts"]) for page in pages] == [10, 10, 5]
    assert [fact["key"] for page in pages for fact in page.json()["facts"]] == keys
    assert [bool(next_page(page)) for page in pages] == [True, True, False]
    assert [page.json()["next_cursor"] is None for page in pages] == [False, False, True]


def test_a_link_names_no_host_so_that_any_proxy_may_stand_in_front(web):
    write(web, "links", ["1", "2"])
    response = web.get("/facts", params={"namespace": "links", "limit": 1})
    link = urlsplit(next_page(response))
    assert (link.scheme, link.netloc, link.path) == ("", "", "/api/v1/facts")


def test_pages_stay_stable_while_others_write(web):
    kept = [f"k{number:02}" for number in range(0, 40, 2)]
    write(web, "stable", kept)
    seen = []
    for number, page in enumerate(walk(web, "/facts", namespace="stable", limit=3)):
        seen += [fact["key"] for fact in page.json()["facts"]]
        write(web, "stable", [f"k{number:02}x", f"k{39 - number:02}y"])
        web.delete("/fact", params={"namespace": "stable", "key": f"k{number:02}x"})
    assert len(seen) == len(set(seen))
    assert [key for key in seen if key in kept] == kept


def test_a_list_has_what_begins_with_the_prefix_and_has_all_tags(web):
    write(web, "tagged", ["a%1", "a_2"], tags=["x", "y"])
    write(web, "tagged", ["a%3"], tags=["x"])
    asked = [("namespace", "tagged"), ("prefix", "a%"), ("tags", "x"), ("tags", "y")]
    assert [fact["key"] for fact in web.get("/facts", params=asked).json()["facts"]] == ["a%1"]


def test_a_page_of_long_values_ends_early_and_goes_on(web):
    value = "\x01" * 16_000
    for part in range(4):
        writes = [{"key": f"{part}{number:02}", "value": value} for number in range(25)]
        web.post("/facts/set", json={"namespace": "heavy", "writes": writes})
    sizes = [
        len(page.json()["facts"]) for page in walk(web, "/facts", namespace="heavy", limit=1_000)
    ]
    assert sum(sizes) == 100
    assert len(sizes) == 2


@pytest.mark.parametrize("path", ["/facts", "/events"])
def test_a_cursor_is_good_for_its_list_alone(web, path):
    write(web, "cursors", ["1", "2", "3"])
    parameters = {"namespace": "cursors", "limit": 1}
    cursor = web.get(path, params=parameters).json()["next_cursor"]
    other = {"namespace": "default", "cursor": cursor}
    for wrong in (other, {"cursor": "x"}, {"cursor": ""}, {"cursor": "🦉"}):
        told = problem(web.get(path, params=wrong), 422, "invalid_argument")
        assert told["argument"] == "cursor"


@pytest.mark.parametrize(
    ("path", "name", "value"),
    [
        *[("/facts", "limit", value) for value in ("0", "1001", "5.0", " 5", "1_0", "+5", "x", "")],
        *[("/search?query=q", "top_k", value) for value in ("0", "101", "1e1")],
        *[("/search?query=q", "min_score", value) for value in ("-0.1", "1.1", "nan", "inf", "")],
        ("/search?query=q", "mode", "fast"),
        ("/events", "kinds", "read"),
        ("/events", "include_reads", "yes"),
        ("/events", "since", "yesterday"),
        ("/facts", "tags", ""),
        ("/facts", "namespace", ""),
        ("/facts", "prefix", "\0"),
    ],
)
def test_a_parameter_that_is_not_allowed_is_named(web, path, name, value):
    mark = "&" if "?" in path else "?"
    told = problem(web.get(f"{path}{mark}{name}=" + quoted(value)), 422, "invalid_argument")
    assert told["argument"] == name


def quoted(value):
    return value.replace(" ", "%20").replace("\0", "%00").replace("+", "%2B")


def test_an_unknown_parameter_is_named_with_what_was_meant(web):
    told = problem(web.get("/facts?limt=3"), 422, "invalid_argument")
    assert told["argument"] == "limt"
    assert "Did you mean `limit`?" in told["detail"]
    assert (
        "None is allowed here."
        in problem(web.get("/version?a=1"), 422, "invalid_argument")["detail"]
    )
    assert (
        problem(web.get("/facts?limit=1&limit=2"), 422, "invalid_argument")["argument"] == "limit"
    )


def test_a_search_finds_the_same_by_query_and_by_body(web):
    write(web, "search", ["deploy/port", "deploy/host"], tags=["ops"])
    asked = {"namespace": "search", "query": "value of the port", "top_k": 1, "prefix": "deploy/"}
    found = web.get("/search", params=asked | {"tags": "ops"}).json()
    assert found == web.post("/search", json=asked | {"tags": ["ops"]}).json()
    assert [hit["fact"]["key"] for hit in found["hits"]] == ["deploy/port"]
    assert found["mode"] == "lexical"
    assert "MCP_EMBEDDINGS" in found["degraded"]
    assert web.get("/search", params=asked | {"mode": "lexical"}).json()["degraded"] is None


def test_the_trail_tells_what_was_done_and_refused(web):
    namespace = {"namespace": "trail"}
    web.put("/fact", params={"key": "k"} | namespace, json={"value": "one"})
    refused = {"If-None-Match": "*"}
    web.put("/fact", params={"key": "k"} | namespace, json={"value": "two"}, headers=refused)
    web.delete("/fact", params={"key": "k"} | namespace)
    events = web.get("/events", params=namespace).json()["events"]
    assert [event["kind"] for event in events] == ["delete", "conflict", "set"]
    conflict = web.get("/events", params=namespace | {"kinds": "conflict"}).json()["events"]
    assert [(it["value_before"], it["value_after"]) for it in conflict] == [("one", "two")]
    both = [("namespace", "trail"), ("kinds", "set"), ("kinds", "delete"), ("key", "k")]
    assert len(web.get("/events", params=both).json()["events"]) == 2
    later = namespace | {"since": "2999-01-01T00:00:00Z"}
    assert web.get("/events", params=later).json() == {"events": [], "next_cursor": None}
    assert web.get("/events", params={"source_client": "nobody"}).json()["events"] == []
    pages = list(walk(web, "/events", namespace="trail", limit=1))
    assert [page.json()["events"][0] for page in pages] == events


def test_the_request_of_an_event_is_that_of_its_response(web):
    response = set_fact(web, "traced", "v", X_Request_Id="my-own-id")
    assert response.headers["x-request-id"] == "my-own-id"
    (event,) = web.get("/events", params={"key": "traced"}).json()["events"]
    assert event["request_id"] == "my-own-id"


def test_reads_are_in_the_trail_a_moment_later_if_asked_for(web):
    set_fact(web, "read", "v")
    web.get("/fact", params={"key": "read"})
    asked = {"key": "read", "include_reads": "true"}
    deadline = time.monotonic() + SECONDS
    while web.get("/events", params=asked).json()["events"][0]["kind"] != "get":
        assert time.monotonic() < deadline
    kinds = {event["kind"] for event in web.get("/events?key=read").json()["events"]}
    assert kinds == {"set"}
