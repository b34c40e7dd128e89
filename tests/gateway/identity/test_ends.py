"""Where a token has ended: new requests, and those that are under way, in every process."""

import json
import re
import socket
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import connect

from gateway.identity.asking import (
    WITHIN_SECONDS,
    Reading,
    ask,
    bearer,
    call,
    client_of,
    opened,
    seconds_until,
    status,
)
from gateway_serving import INITIALIZE, MODERN, SECONDS, TOKEN, http_server, message, modern
from memory_store.opening import open_store
from memory_store.settings import StoreSettings
from store.office import Office


def test_a_token_for_another_time_is_refused(web, office):
    soon = datetime.now(UTC) + timedelta(seconds=1)
    made = office.create("short-lived", ("read",), expires_at=soon)
    assert status(web, made.secret) == 200
    assert seconds_until(lambda: status(web, made.secret) == 401) < 1 + WITHIN_SECONDS


def test_a_revoked_token_ends_everywhere_within_five_seconds(web, database, office, token):
    with http_server(database) as another, client_of(another) as there:
        assert {status(web, token.secret), status(there, token.secret)} == {200}
        office.revoke(token.token.name)
        for gateway in (web, there):
            assert seconds_until(lambda at=gateway: status(at, token.secret) == 401) < (
                WITHIN_SECONDS
            )


def test_a_rotated_token_is_good_beside_its_old_secret_for_the_overlap(web, office, token):
    rotated = office.rotate(token.token.name, 1.0)
    assert status(web, token.secret) == status(web, rotated.secret) == 200
    assert seconds_until(lambda: status(web, token.secret) == 401) < 1 + WITHIN_SECONDS
    assert status(web, rotated.secret) == 200


def streams(web, secret):
    listen = modern("subscriptions/listen", notifications={"resourcesListChanged": True})
    method = MODERN | {"Mcp-Method": "subscriptions/listen"}
    session = bearer(secret) | opened(web, secret)
    return [
        Reading(web, "GET", "/mcp", headers=session),
        Reading(web, "POST", "/mcp", json=listen, headers=bearer(secret) | method),
        Reading(web, "GET", "/sse", headers=bearer(secret)),
        Reading(web, "GET", "/api/v1/events/stream", headers=bearer(secret)),
    ]


def test_streams_end_with_their_token_and_those_of_others_go_on(web, office, token):
    ending, staying = streams(web, token.secret), streams(web, TOKEN)
    assert all(stream.begun.wait(SECONDS) for stream in ending + staying)
    revoked_at = time.monotonic()
    office.revoke(token.token.name)
    for stream in ending:
        stream.join(SECONDS)
        assert 0 < stream.ended_at - revoked_at < WITHIN_SECONDS
    assert all(stream.is_alive() for stream in staying)


def test_a_websocket_ends_with_its_token_and_says_why(served, office, token):
    def connected(secret):
        url = served.url.replace("http", "ws").replace("/mcp", "/ws")
        return connect(url, additional_headers=bearer(secret), open_timeout=SECONDS)

    with connected(token.secret) as ending, connected(TOKEN) as staying:
        revoked_at = time.monotonic()
        office.revoke(token.token.name)
        with pytest.raises(ConnectionClosedError) as closed:
            ending.recv(SECONDS)
        assert time.monotonic() - revoked_at < WITHIN_SECONDS
        assert (closed.value.rcvd.code, "token" in closed.value.rcvd.reason) == (1008, True)
        staying.send(json.dumps(INITIALIZE))
        assert json.loads(staying.recv(SECONDS))["result"]


def test_a_stream_that_nobody_reads_ends_with_its_token_too(served, web, office, token):
    request = (
        f"GET /api/v1/events/stream?after=0 HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: Bearer {token.secret}\r\n\r\n"
    )
    for number in range(5):  # more than the buffers of the system hold
        writes = [{"key": f"{number}/{of}", "value": "x" * 16_000} for of in range(100)]
        call(web, TOKEN, "memory_set_many", writes=writes, namespace="long")
    with socket.create_connection(("127.0.0.1", served.port), timeout=SECONDS) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(request.encode())
        seconds_until(lambda: streams_open(web) == 1)
        office.revoke(token.token.name)
        assert seconds_until(lambda: streams_open(web) == 0) < WITHIN_SECONDS


def streams_open(web):
    told = web.get("/metrics", headers=bearer(TOKEN)).text
    return float(re.search(r"subscribers_event_streams ([\d.]+)$", told, re.MULTILINE)[1])


def test_a_call_under_way_ends_with_its_token_and_is_refused(tmp_path):
    database = tmp_path / "memory.db"
    with (
        http_server(database, MCP_ENABLE_DEMO_TOOLS="1") as server,
        closing(open_store(StoreSettings(memory_db=database))) as store,
        client_of(server) as web,
    ):
        ends = datetime.now(UTC) + timedelta(seconds=2)
        secret = Office(store).create("holder", ("write",), expires_at=ends).secret
        hold = {"name": "lock_hold", "arguments": {"seconds": 60}}
        began = time.monotonic()
        refused = ask(web, secret, "tools/call", "lock_hold", **hold)
    assert refused.status_code == 401
    assert "any more" in message(refused)["error"]["message"]
    assert time.monotonic() - began < 2 + WITHIN_SECONDS
