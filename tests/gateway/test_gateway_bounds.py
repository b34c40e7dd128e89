"""How much one principal may ask: rates here and in Redis, and requests under way."""

from contextlib import asynccontextmanager

import anyio
import httpx2
import pytest

from gateway_serving import ACCEPT, AUTHORIZED, MODERN, SECONDS, http_server, modern
from memory_gateway.bounds.limits import InFlight
from memory_gateway.bounds.rates import MOST_NAMES, LocalRates, Rate
from memory_gateway.bounds.redis_rates import RedisRates
from memory_gateway.principals import PRINCIPAL, Principal
from redis_server import redis_server

RATE = Rate(per_second=10, burst=3)
LIST = {"headers": MODERN | {"Mcp-Method": "tools/list"}, "json": modern("tools/list")}


class Clock:
    now = 1_000.0

    def __call__(self):
        return self.now


@pytest.mark.anyio
async def test_a_burst_is_let_through_and_then_the_rate():
    clock = Clock()
    rates = LocalRates(RATE, clock)
    assert [await rates.take("a") for _ in range(3)] == [0, 0, 0]
    assert await rates.take("a") == pytest.approx(0.1, abs=1e-4)
    assert await rates.take("b") == 0
    clock.now += 0.1
    assert await rates.take("a") == 0
    assert await rates.take("a") > 0
    clock.now += 60
    assert [await rates.take("a") for _ in range(4)] == [0, 0, 0, pytest.approx(0.1, abs=1e-4)]


@pytest.mark.anyio
async def test_what_was_refused_takes_nothing():
    clock = Clock()
    rates = LocalRates(RATE, clock)
    for _ in range(50):
        await rates.take("a")
    clock.now += 0.1
    assert await rates.take("a") == 0


@pytest.mark.anyio
async def test_names_without_end_do_not_fill_the_memory():
    rates = LocalRates(RATE)
    for number in range(MOST_NAMES + 100):
        await rates.take(str(number))
    assert len(rates._moments) == MOST_NAMES


@pytest.mark.anyio
async def test_gateways_share_a_bucket_in_redis_and_count_alone_without_it(tmp_path):
    slow = Rate(per_second=0.01, burst=3)
    with redis_server(tmp_path) as redis:
        one, other = RedisRates(redis.url, slow), RedisRates(redis.url, slow)
        assert [await rates.take("a") for rates in (one, other, one)] == [0, 0, 0]
        assert 0 < await other.take("a") <= 100
        assert 0 < await one.take("a") <= 100
        redis.stop()
        assert [await other.take("a") for _ in range(3)] == [0, 0, 0]
        assert await other.take("a") > 0
        await one.close()
        await other.close()


def test_who_is_too_fast_is_told_when_to_come_again(tmp_path):
    settings = {"MCP_RATE_PER_SECOND": "0.5", "MCP_RATE_BURST": "3"}
    with (
        http_server(tmp_path / "memory.db", **settings) as server,
        httpx2.Client(headers=AUTHORIZED | ACCEPT, timeout=SECONDS) as web,
    ):
        statuses = [web.post(server.url, **LIST).status_code for _ in range(3)]
        refused = web.post(server.url, **LIST)
        health = web.get(f"http://127.0.0.1:{server.port}/healthz")
        nobody = httpx2.post(server.url, **LIST | {"headers": ACCEPT})
    assert statuses == [200, 200, 200]
    assert refused.status_code == 429
    assert 1 <= int(refused.headers["retry-after"]) <= 2
    assert "0.5 a second (MCP_RATE_PER_SECOND)" in refused.json()["error"]["message"]
    assert health.status_code == 200
    assert nobody.status_code == 401


class Waiting:
    """An application whose requests wait until they are let go, and the statuses of them all."""

    def __init__(self):
        self.statuses = []
        self._entered, self._let_go = anyio.Semaphore(0), anyio.Event()

    async def __call__(self, _scope, _receive, send):
        self._entered.release()
        await self._let_go.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def note(self, message):
        if message["type"] == "http.response.start":
            self.statuses.append(message["status"])

    @asynccontextmanager
    async def holding(self, bounded, *requests):
        """While the context lasts these are under way."""
        async with anyio.create_task_group() as tasks:
            for scope in requests:
                tasks.start_soon(bounded, scope, None, self.note)
            for _ in requests:
                await self._entered.acquire()
            yield
            self._let_go.set()


def request(name="a", method="POST", path="/mcp", **headers):
    pairs = [(key.replace("_", "-").encode(), value.encode()) for key, value in headers.items()]
    scope = {"type": "http", "method": method, "path": path, "headers": pairs}
    return scope | {PRINCIPAL: Principal(name)}


@pytest.mark.anyio
async def test_of_too_many_requests_under_way_the_last_is_refused_and_others_are_not():
    waiting = Waiting()
    bounded = InFlight(waiting, 2, 2)
    async with waiting.holding(bounded, request("a"), request("a"), request("b")):
        assert bounded.under_way == 3
        await bounded(request("a"), None, waiting.note)
        assert waiting.statuses == [429]
    assert waiting.statuses == [429, 200, 200, 200]
    assert bounded.under_way == 0


STREAMS = [
    request(method="GET", path="/mcp"),
    request(method="GET", path="/mcp/"),
    request(method="GET", path="/sse"),
    request(method="GET", path="/api/v1/events/stream"),
    request(mcp_method="subscriptions/listen"),
    request(path="/ws") | {"type": "websocket", "extensions": {"websocket.http.response": {}}},
]


@pytest.mark.parametrize("stream", STREAMS, ids=lambda it: f"{it['method']} {it['path']}")
@pytest.mark.anyio
async def test_streams_have_a_bound_of_their_own_whatever_their_clients_accept(stream):
    waiting, refused = Waiting(), []

    async def note(message):
        refused.append(message)

    bounded = InFlight(waiting, 1, 2)
    async with waiting.holding(bounded, request(), stream, stream):
        assert bounded.under_way == 1
        await bounded(stream, None, note)
        assert refused[0]["status"] == 429
        assert (b"retry-after", b"30") in refused[0]["headers"]


@pytest.mark.parametrize("path", ["/api/v1/facts", "/api/v1/events", "/metrics"])
@pytest.mark.anyio
async def test_who_says_that_it_takes_a_stream_is_bounded_all_the_same(path):
    waiting = Waiting()
    bounded = InFlight(waiting, 1, 9)
    reading = request(method="GET", path=path, accept="text/event-stream")
    async with waiting.holding(bounded, reading):
        await bounded(reading, None, waiting.note)
        assert waiting.statuses == [429]


def test_for_a_stream_too_many_its_client_is_told_when_to_come_again(tmp_path):
    settings = {"MCP_MAX_STREAMS": "1"}
    with (
        http_server(tmp_path / "memory.db", **settings) as server,
        httpx2.Client(headers=AUTHORIZED | ACCEPT, timeout=SECONDS) as web,
    ):
        events = f"http://127.0.0.1:{server.port}/api/v1/events/stream"
        with web.stream("GET", events) as first:
            assert first.status_code == 200
            refused = web.get(events)
            call = web.post(server.url, **LIST)
    assert refused.status_code == 429
    assert refused.headers["retry-after"] == "30"
    assert "MCP_MAX_STREAMS" in refused.json()["detail"]
    assert call.status_code == 200


def test_messages_of_the_older_transports_count_towards_the_rate(tmp_path):
    settings = {"MCP_RATE_PER_SECOND": "0.5", "MCP_RATE_BURST": "3"}
    with (
        http_server(tmp_path / "memory.db", **settings) as server,
        httpx2.Client(headers=AUTHORIZED | ACCEPT, timeout=SECONDS) as web,
    ):
        address = f"http://127.0.0.1:{server.port}/messages?session_id=none"
        statuses = [web.post(address, json=modern("ping")).status_code for _ in range(4)]
    assert statuses == [404, 404, 404, 429]
