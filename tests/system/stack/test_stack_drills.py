"""What can go wrong goes wrong under load: nothing is lost, and all is found by meaning again."""

import re
import time
from collections import Counter

import httpx2
import pytest

from memory_bridge.client import ToolFailed
from system.stack.failures import away, crash, cut_off, in_redis, logged, recovery
from system.stack.load import (
    PATIENCE_SECONDS,
    SEARCHABLE_SECONDS,
    Load,
    assert_found_by_meaning,
    assert_nothing_lost,
)
from waiting import wait_until

pytestmark = [pytest.mark.containers, pytest.mark.timeout(900)]

EMBEDDED = re.compile(r"embedding change (\d+)")
ONCE = 10**6
"""So many keys that each is written only once."""
SEARCH_SECONDS = 10.0
"""Far above what a search takes, far below what looking up the name of who is away may take."""
LONG = "The lighthouse keeper of the northern island writes down what the weather was. " * 200


def assert_survived(stack, load, recovered):
    assert_nothing_lost(stack, load)
    assert_found_by_meaning(stack, load, recovered)


def condition(stack):
    """What the gateway says of all that it needs."""
    return httpx2.get(stack.url.replace("/mcp", "/readyz"), timeout=20).json()["checks"]


def search(client, load, query):
    arguments = {"namespace": load.namespace, "query": query}
    return client.call_tool("memory_search", arguments)["structuredContent"]


def test_every_container_is_killed_in_turn(lean):
    with Load(lean) as load:
        for service in ("embedder", "gateway", "store", "redis"):
            crash(*lean.containers(service))
            load.go_on()
        recovered = recovery(lean)
        load.go_on()
    assert_survived(lean, load, recovered)


def test_redis_forgets_everything(lean):
    with Load(lean) as load:
        assert in_redis(lean, "flushall") == "OK"
        recovered = time.monotonic()
        load.go_on()
    assert load.troubles == []
    assert_survived(lean, load, recovered)


def test_while_redis_is_away_writes_and_search_by_words_go_on(lean, request):
    seconds = request.config.getoption("--redis-away-seconds")
    with Load(lean) as load, lean.client() as client:
        with away(lean, "redis"):
            back = time.monotonic() + seconds
            while time.monotonic() < back:
                load.go_on()
                asked = time.monotonic()
                found = search(client, load, "Does the gardener keep anything?")
                assert time.monotonic() - asked < SEARCH_SECONDS
                assert (found["mode"], bool(found["degraded"])) == ("lexical", True)
                assert found["hits"]
        recovered = recovery(lean)
        load.go_on()
    assert load.told() == set()
    assert_survived(lean, load, recovered)


def test_twenty_clients_of_a_store_that_restarts_are_told_to_try_again(lean):
    with Load(lean, clients=20, keys=3) as load:
        lean.compose("restart", "store")
        recovered = recovery(lean)
        load.go_on()
    assert load.troubles
    assert all(isinstance(trouble, ToolFailed) for trouble in load.troubles), load.told()
    assert_survived(lean, load, recovered)


def test_the_store_is_cut_off_from_the_others(lean):
    with Load(lean) as load:
        with cut_off(lean, "store"):
            wait_until(lambda: condition(lean)["store"] == "down")
        wait_until(lambda: condition(lean)["store"] == "ok")
        recovered = recovery(lean)
        load.go_on()
    assert all(isinstance(trouble, ToolFailed) for trouble in load.troubles), load.told()
    assert_survived(lean, load, recovered)


def test_postgres_is_killed_and_comes_back(extended):
    with Load(extended) as load:
        with away(extended, "postgres"):
            wait_until(lambda: bool(load.troubles), seconds=60)
        recovered = recovery(extended)
        load.go_on()
    assert all(isinstance(trouble, ToolFailed) for trouble in load.troubles), load.told()
    assert_survived(extended, load, recovered)


def embedded(worker, since):
    """How often the worker has embedded each change since a moment."""
    return Counter(EMBEDDED.findall(logged(worker, since)))


def backlog(client, **arguments):
    return client.call_tool("memory_stats", arguments)["structuredContent"]["backlog"]["pending"]


def test_two_workers_behind_two_gateways_embed_each_fact_once(extended):
    workers = extended.containers("embedder")
    with extended.client() as client:
        wait_until(lambda: backlog(client) == 0, seconds=60, about="nothing is left from before")
    began = time.time()
    with Load(extended, keys=ONCE) as load:
        wait_until(lambda: all(embedded(worker, began) for worker in workers), seconds=60)
    assert_survived(extended, load, time.monotonic())
    counts = sum((embedded(worker, began) for worker in workers), Counter())
    assert set(counts.values()) == {1}
    assert len(counts) == load.writes


def test_what_a_worker_was_at_when_it_was_killed_is_taken_over(extended):
    workers = extended.containers("embedder")
    batch = [{"key": str(number), "value": f"{number}. {LONG}"} for number in range(8)]
    began = time.time()

    def embedded_again():
        total = sum((embedded(worker, began) for worker in workers), Counter())
        return any(total[change] > 1 for change in taken)

    with extended.client() as client:
        client.call_tool("memory_set_many", {"namespace": "long", "writes": batch})
        wait_until(lambda: any(embedded(worker, began) for worker in workers))
        busy = next(worker for worker in workers if embedded(worker, began))
        crash(busy)
        killed, taken = time.monotonic(), embedded(busy, began)
        assert backlog(client, namespace="long") > 0
        with Load(extended) as load:
            wait_until(embedded_again, seconds=killed + SEARCHABLE_SECONDS - time.monotonic())
        wait_until(lambda: backlog(client, namespace="long") == 0, seconds=PATIENCE_SECONDS)
    assert_survived(extended, load, recovery(extended))
