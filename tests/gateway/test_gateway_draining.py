"""A server with many streams of every kind open stops in time, and forgets clients that die."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import ExitStack

import httpx2
from websockets.sync.client import connect

from gateway_serving import (
    ACCEPT,
    AUTHORIZED,
    INITIALIZE,
    MODERN,
    SECONDS,
    http_server,
    modern,
)

SHUTDOWN_SECONDS = 5.0
OF_EACH = 10
LISTEN = modern("subscriptions/listen", notifications={"resourcesListChanged": True})
LISTENING = MODERN | {"Mcp-Method": "subscriptions/listen"}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def session_stream(web, base):
    opened = web.post(f"{base}/mcp", json=INITIALIZE)
    session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
    web.post(f"{base}/mcp", json=INITIALIZED, headers=session)
    return web.stream("GET", f"{base}/mcp", headers=session)


def listen_stream(web, base):
    return web.stream("POST", f"{base}/mcp", json=LISTEN, headers=LISTENING)


def older_stream(web, base):
    return web.stream("GET", f"{base}/sse")


def event_stream(web, base):
    return web.stream("GET", f"{base}/api/v1/events/stream")


def socket_of(_web, base):
    return connect(
        f"ws{base.removeprefix('http')}/ws", additional_headers=AUTHORIZED, subprotocols=["mcp"]
    )


KINDS = (session_stream, listen_stream, older_stream, event_stream, socket_of)


def test_sigterm_with_fifty_streams_of_all_kinds_drains_in_time(tmp_path):
    with http_server(tmp_path / "memory.db") as server, ExitStack() as streams:
        limits = httpx2.Limits(max_connections=None)
        headers = AUTHORIZED | ACCEPT
        web = streams.enter_context(httpx2.Client(timeout=SECONDS, headers=headers, limits=limits))
        base = server.url.removesuffix("/mcp")
        for kind in KINDS * OF_EACH:
            streams.enter_context(kind(web, base))
        told = time.monotonic()
        code, said = server.stop(signal.SIGTERM)
        assert time.monotonic() - told < SHUTDOWN_SECONDS
    assert (code, "Traceback" in said) == (0, False)


CLIENT = """
import json, sys, httpx2
headers, base, uri, initialize, initialized, listen, listening = json.load(sys.stdin)
web = httpx2.Client(timeout=60, headers=headers)
opened = web.post(f"{base}/mcp", json=initialize)
session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
web.post(f"{base}/mcp", json=initialized, headers=session)
subscribe = {"jsonrpc": "2.0", "id": 2, "method": "resources/subscribe", "params": {"uri": uri}}
web.post(f"{base}/mcp", json=subscribe, headers=session)
with (
    web.stream("GET", f"{base}/mcp", headers=session),
    web.stream("POST", f"{base}/mcp", json=listen, headers=listening) as listens,
    web.stream("GET", f"{base}/api/v1/events/stream") as follows,
):
    parts = [listens.iter_raw(), follows.iter_raw()]
    for part in parts:
        next(part)
    print("open", flush=True)
    next(parts[0])
"""


def subscribers(web, base):
    text = web.get(f"{base}/metrics").text
    found = re.findall(r"^\w*subscribers_(?!dropped)\w+ ([0-9.]+)$", text, re.MULTILINE)
    return [float(number) for number in found]


def wait_for(condition):
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.05)


def test_a_client_that_is_killed_is_no_subscriber_any_more(tmp_path):
    headers = AUTHORIZED | ACCEPT
    with http_server(tmp_path / "memory.db") as server, httpx2.Client(headers=headers) as web:
        base = server.url.removesuffix("/mcp")
        given = [
            *(headers, base, "memory://default/k"),
            *(INITIALIZE, INITIALIZED, LISTEN, LISTENING),
        ]
        client = subprocess.Popen(
            [sys.executable, "-c", CLIENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        client.stdin.write(json.dumps(given).encode())
        client.stdin.close()
        assert client.stdout.readline() == b"open\n"
        assert subscribers(web, base) == [1.0, 1.0, 1.0, 1.0]
        os.kill(client.pid, signal.SIGKILL)
        client.wait(SECONDS)
        wait_for(lambda: not any(subscribers(web, base)))
