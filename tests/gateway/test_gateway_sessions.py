"""The sessions of the server are bounded, and whoever is using one keeps it."""

from contextlib import ExitStack

import httpx2
import pytest

from gateway_serving import ACCEPT, AUTHORIZED, INITIALIZE, SECONDS, http_server, message

MOST = 3
PING = {"jsonrpc": "2.0", "id": 5, "method": "ping"}


@pytest.fixture
def web(tmp_path):
    headers = AUTHORIZED | ACCEPT
    with http_server(tmp_path / "memory.db", MCP_MAX_SESSIONS=str(MOST)) as server:
        base = server.url.removesuffix("/mcp")
        with httpx2.Client(base_url=base, timeout=SECONDS, headers=headers) as web:
            yield web


def opened(web):
    response = web.post("/mcp", json=INITIALIZE)
    assert response.status_code == 200, response.text
    return {"Mcp-Session-Id": response.headers["mcp-session-id"]}


def ping(web, session):
    return web.post("/mcp", json=PING, headers=session).status_code


def test_for_one_session_too_many_the_one_idle_for_longest_is_ended(web):
    first, second, third = (opened(web) for _ in range(MOST))
    assert ping(web, first) == 200
    fourth = opened(web)

    assert [ping(web, session) for session in (first, third, fourth)] == [200] * 3
    gone = web.post("/mcp", json=PING, headers=second)
    assert gone.status_code == 404
    assert gone.json()["id"] == PING["id"]


def test_sessions_in_use_are_kept_and_further_ones_told_when_to_come_again(web):
    with ExitStack() as streams:
        for _ in range(MOST):
            stream = web.stream("GET", "/mcp", headers=opened(web))
            assert streams.enter_context(stream).status_code == 200
        refused = web.post("/mcp", json=INITIALIZE)
    assert refused.status_code == 503
    assert int(refused.headers["retry-after"]) > 0
    assert refused.json()["id"] == INITIALIZE["id"]
    assert "sessions" in message(refused)["error"]["message"]


def test_a_session_that_was_ended_or_refused_leaves_room(web):
    for _ in range(3 * MOST):
        assert web.delete("/mcp", headers=opened(web)).status_code == 200
        bad = web.post("/mcp", json=INITIALIZE | {"params": {}})
        assert "error" in message(bad)
    kept = [opened(web) for _ in range(MOST)]
    assert [ping(web, session) for session in kept] == [200] * MOST


def test_a_stream_that_is_opened_anew_takes_the_place_of_the_one_before(web):
    session = opened(web)
    with web.stream("GET", "/mcp", headers=session) as before:
        assert before.status_code == 200
        asked_for_json = web.get("/mcp", headers=session | {"Accept": "application/json"})
        assert asked_for_json.status_code == 406
        with web.stream("GET", "/mcp", headers=session) as after:
            assert after.status_code == 200
            assert list(before.iter_lines()) == []
            with web.stream("GET", "/mcp", headers=opened(web)) as another:
                assert another.status_code == 200
            subscribe = {"jsonrpc": "2.0", "id": 6, "method": "resources/subscribe"}
            uri = {"params": {"uri": "memory://default/k"}}
            assert web.post("/mcp", json=subscribe | uri, headers=session).status_code == 200
            call = {"name": "memory_set", "arguments": {"key": "k", "value": "v"}}
            said = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": call}
            assert web.post("/mcp", json=said, headers=session).status_code == 200
            assert "resources/updated" in next(
                line for line in after.iter_lines() if "data" in line
            )
