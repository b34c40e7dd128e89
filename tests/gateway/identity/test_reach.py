"""Scopes and namespaces of a token hold on everything that is served."""

import json

import pytest

from gateway.identity.asking import ask, bearer, call, client_of
from gateway_serving import TOKEN, message

API = "/api/v1"


@pytest.fixture(scope="module")
def confined(served, office):
    """A reader of one namespace, beside which there are others."""
    with client_of(served) as web:
        for namespace in ("default", "mine", "theirs"):
            call(web, TOKEN, "memory_set", namespace=namespace, key=f"of {namespace}", value="cat")
    return office.create("confined", ("read",), namespaces=("mine",)).secret


def test_a_reader_is_shown_what_reads_and_a_writer_all(web, confined, token):
    listed = message(ask(web, confined, "tools/list"))["result"]
    shown = {tool["name"]: tool["annotations"] for tool in listed["tools"]}
    everything = message(ask(web, token.secret, "tools/list"))["result"]["tools"]

    assert "memory_search" in shown
    assert all(annotations["readOnlyHint"] for annotations in shown.values())
    assert {"memory_set", *shown} < {tool["name"] for tool in everything}
    assert listed["cacheScope"] == "private"


WRITING = {
    "memory_set": {"key": "k", "value": "v"},
    "memory_delete": {"key": "of mine"},
    "memory_restore": {"key": "of mine", "version": 1},
    "memory_set_many": {"writes": [{"key": "k", "value": "v"}]},
}
READING = {
    "memory_get": {"key": "of theirs"},
    "memory_get_many": {"keys": ["of theirs"]},
    "memory_list": {},
    "memory_search": {"query": "cat"},
    "memory_history": {},
    "memory_stats": {},
}


def refused_call(web, secret, tool, arguments):
    result = call(web, secret, tool, **arguments)
    assert result["isError"]
    assert result["structuredContent"]["problem"]["code"] == "forbidden"
    return result["content"][0]["text"]


def test_a_reader_writes_nothing_and_is_told_why(web, confined):
    for tool, arguments in WRITING.items():
        said = refused_call(web, confined, tool, {"namespace": "mine"} | arguments)
        assert "needs the scope `write`" in said
    assert call(web, TOKEN, "memory_get", namespace="mine", key="k")["structuredContent"] == {
        "found": False,
        "fact": None,
    }


def test_every_tool_keeps_to_the_namespaces_of_a_token(web, confined):
    for tool, arguments in READING.items():
        for namespace in ({"namespace": "theirs"}, {}):
            said = refused_call(web, confined, tool, arguments | namespace)
            assert "mine" in said
            assert "theirs" not in said
        assert not call(web, confined, tool, **(arguments | {"namespace": "mine"})).get("isError")
    stats = call(web, confined, "memory_stats", namespace="mine")["structuredContent"]
    assert stats["namespaces"] == 1


def test_resources_keep_to_the_namespaces_of_a_token(web, confined):
    listed = message(ask(web, confined, "resources/list"))["result"]["resources"]
    assert [resource["uri"] for resource in listed] == ["memory://mine/of%20mine"]
    for uri, found in (("memory://mine/of%20mine", True), ("memory://theirs/of%20theirs", False)):
        answer = message(ask(web, confined, "resources/read", uri, uri=uri))
        assert ("result" in answer) == found
    assert "reach" in answer["error"]["message"]


def test_prompts_keep_to_the_namespaces_of_a_token(web, confined):
    for prompt, given in (("recall", {"topic": "cat"}), ("handoff", {})):
        for namespace, found in (("mine", True), ("theirs", False)):
            arguments = given | {"namespace": namespace}
            answer = message(
                ask(web, confined, "prompts/get", prompt, name=prompt, arguments=arguments)
            )
            assert ("result" in answer) == found
            assert "of theirs" not in json.dumps(answer)


def test_a_token_that_reaches_nothing_yet_lists_nothing(web, office):
    secret = office.create("early", ("read",), namespaces=("not yet",)).secret
    assert message(ask(web, secret, "resources/list"))["result"]["resources"] == []


OF_MINE = "namespace=mine&key=of%20mine"
READ_ROUTES = {
    "/facts": {},
    "/search": {"query": "cat"},
    "/events": {},
    "/stats": {},
    "/fact": {"key": "of mine"},
}


@pytest.mark.parametrize("route", READ_ROUTES)
def test_a_route_of_the_http_interface_keeps_to_the_namespaces_of_a_token(web, confined, route):
    for namespace, expected in (("mine", 200), ("theirs", 403), (None, 403)):
        given = READ_ROUTES[route] | ({"namespace": namespace} if namespace else {})
        answer = web.get(API + route, params=given, headers=bearer(confined))
        assert answer.status_code == expected, answer.text
        assert "of theirs" not in answer.text
        assert expected == 200 or answer.json()["code"] == "forbidden"


def test_a_reader_changes_nothing_over_http(web, confined):
    for method, route, body in (
        ("PUT", f"/fact?{OF_MINE}", {"value": "v"}),
        ("DELETE", f"/fact?{OF_MINE}", None),
        ("POST", f"/fact/restore?{OF_MINE}&version=1", None),
        ("POST", "/facts/set", {"namespace": "mine", "writes": [{"key": "k", "value": "v"}]}),
        ("POST", "/tokens", {"name": "mine too", "scopes": ["admin"]}),
        ("DELETE", "/tokens/confined", None),
        ("POST", "/tokens/confined/rotate", {}),
    ):
        answer = web.request(method, API + route, json=body, headers=bearer(confined))
        assert (answer.status_code, answer.json().get("code")) == (403, "forbidden"), answer.text


@pytest.mark.parametrize(
    "path",
    [f"{API}/tokens", "/metrics", f"{API}/events/stream?namespace=theirs"],
)
def test_what_is_about_everything_is_not_for_who_reads_one_namespace(web, confined, path):
    assert web.get(path, headers=bearer(confined)).status_code == 403


def test_only_namespaces_within_reach_are_listed_and_completed(web, confined):
    listed = web.get(f"{API}/namespaces", headers=bearer(confined)).json()["namespaces"]
    assert [namespace["name"] for namespace in listed] == ["mine"]
    ref = {"type": "ref/resource", "uri": "memory://{namespace}/{key}"}

    def completed(name, **given):
        argument, context = {"name": name, "value": ""}, {"arguments": given}
        answer = ask(
            web, confined, "completion/complete", ref=ref, argument=argument, context=context
        )
        return message(answer)

    assert completed("namespace")["result"]["completion"]["values"] == ["mine"]
    assert completed("key", namespace="mine")["result"]["completion"]["values"] == ["of mine"]
    assert "of theirs" not in json.dumps(completed("key", namespace="theirs"))


def test_of_events_only_those_within_reach_are_streamed(web, confined):
    call(web, TOKEN, "memory_set", namespace="theirs", key="heard?", value="cat")
    call(web, TOKEN, "memory_set", namespace="mine", key="heard!", value="cat")
    stream = web.stream("GET", f"{API}/events/stream?after=0", headers=bearer(confined))
    with stream as response:
        told = []
        for line in response.iter_lines():
            told.append(line)
            if "heard!" in line:
                break
    assert "theirs" not in "".join(told)
