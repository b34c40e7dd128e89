"""What a user does with the stack: start it, write, find, look back, stop and start again."""

import time

import pytest

from compose_stack import Stack

pytestmark = [pytest.mark.containers, pytest.mark.timeout(900)]

PATIENCE_SECONDS = 60.0
KEY = "garden/roses"
FIRST, SECOND = "The roses want pruning in March.", "The roses were pruned on the third of March."
QUESTION = "when are the flowers cut back?"


@pytest.fixture(params=["lean", "extended"])
def stack(request: pytest.FixtureRequest) -> Stack:
    return request.getfixturevalue(request.param)


def answer(client, tool, **arguments):
    return client.call_tool(tool, arguments)["structuredContent"]


def found_by_meaning(client, namespace, question, among=1):
    """The best value for a question, once so many facts have their embedding."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        arguments = {"namespace": namespace, "query": question, "mode": "semantic"}
        result = answer(client, "memory_search", **arguments)
        hits = result["hits"]
        ready = [hit for hit in hits if hit["fact"]["index"] == "ready"]
        if result["mode"] == "semantic" and len(ready) == among:
            return hits[0]["fact"]["value"]
        time.sleep(0.2)
    raise AssertionError(f"not found by meaning within {PATIENCE_SECONDS:g} s: {result}")


def test_what_was_written_is_found_by_meaning_and_has_a_history(stack):
    with stack.client("alice") as alice, stack.client("bob") as bob:
        answer(alice, "memory_set", namespace="story", key=KEY, value=FIRST)
        answer(alice, "memory_set", namespace="story", key="cellar/pump", value="It leaks oil.")
        answer(bob, "memory_set", namespace="story", key=KEY, value=SECOND)
        assert found_by_meaning(alice, "story", QUESTION, among=2) == SECOND
        events = answer(alice, "memory_history", namespace="story", key=KEY)["events"]
    assert [(event["source_client"], event["value_after"]) for event in events] == [
        ("bob", SECOND),
        ("alice", FIRST),
    ]


def test_a_restart_of_everything_loses_nothing(stack):
    with stack.client() as client:
        answer(client, "memory_set", namespace="restart", key=KEY, value=FIRST)
    stack.compose("restart")
    stack.wait_until_healthy()
    with stack.client() as client:
        assert answer(client, "memory_get", namespace="restart", key=KEY)["fact"]["value"] == FIRST
        assert found_by_meaning(client, "restart", QUESTION) == FIRST


def test_down_keeps_the_memory_and_the_token(stack):
    token = stack.token
    with stack.client() as client:
        answer(client, "memory_set", namespace="down", key=KEY, value=FIRST)
    assert stack.make("down").returncode == 0
    assert stack.compose("ps", "--all", "--quiet") == ""
    stack.up()
    assert stack.token == token
    with stack.client() as client:
        assert answer(client, "memory_get", namespace="down", key=KEY)["fact"]["value"] == FIRST


def test_up_says_how_to_connect_and_not_the_token(lean):
    said = lean.up()
    assert f"The memory is served at   {lean.url}\n" in said
    assert f"Its token is in           {lean.secrets}/auth_token\n" in said
    assert f"claude mcp add --transport http memory-bridge {lean.url} --header" in said
    assert lean.token not in said


def test_an_unknown_profile_is_refused_with_a_sentence(lean):
    done = lean.make("up", "PROFILE=huge")
    assert done.returncode != 0
    assert "PROFILE must be lean or extended, not huge." in done.stderr


def test_the_memory_is_deleted_only_when_that_is_meant(lean):
    with lean.client() as client:
        answer(client, "memory_set", namespace="clean", key=KEY, value=FIRST)
    refused = lean.make("clean-data")
    assert refused.returncode != 0
    assert "YES=1" in refused.stderr
    with lean.client() as client:
        assert answer(client, "memory_get", namespace="clean", key=KEY)["fact"]["value"] == FIRST
    assert lean.make("clean-data", "YES=1").returncode == 0
    lean.up()
    with lean.client() as client:
        listed = answer(client, "memory_list", namespace="clean")
    assert listed["facts"] == []
