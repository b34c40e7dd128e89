"""Queries and nudges through a real Redis: in time, or refused with a sentence and at once."""

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import httpx2
import pytest
from redis import Redis

from apart import gateway_over
from fakes import FakeEmbedder
from gateway_serving import ACCEPT, AUTHORIZED, MODERN, SECONDS, message, modern
from memory_embedder.contract import EmbedderUnavailable
from memory_embedder.exchange import PREFIX, Exchange
from memory_embedder.remote import (
    MOST_AT_ONCE,
    NO_WORKER,
    QUEUE_DOWN,
    TOO_MANY,
    NudgeThread,
    RedisQueryEmbedder,
)
from redis_server import redis_server
from waiting import wait_until
from worker_process import Stack


@pytest.fixture
def redis(tmp_path):
    with redis_server(tmp_path) as server:
        yield server


def refusal(queries: RedisQueryEmbedder, text: str = "anything") -> str:
    with pytest.raises(EmbedderUnavailable) as refused:
        queries.query(text)
    return str(refused.value)


def waiting(redis, queue: str) -> int:
    with closing(Redis.from_url(redis.url)) as client:
        return client.llen(f"{PREFIX}{queue}")


def test_a_query_gets_the_vector_of_the_worker_s_model(stack: Stack):
    with stack.fake("one"), closing(RedisQueryEmbedder(stack.redis.url)) as queries:
        embedded = queries.query("Wo ist der Schlüssel?")
    model = FakeEmbedder("one")
    assert embedded.vector == model.embed(["Wo ist der Schlüssel?"])[0]
    assert embedded.model == model.identity.id


def test_a_query_does_not_wait_for_what_was_written(stack: Stack):
    stack.write(500)
    with (
        stack.fake(FAKE_SECONDS="0.05"),
        closing(RedisQueryEmbedder(stack.redis.url, deadline_seconds=5)) as queries,
    ):
        assert [len(queries.query(f"query {number}").vector) for number in range(20)]
        assert stack.store.stats().backlog.pending > 100


def test_what_the_model_fails_on_is_refused_with_the_worker_s_sentence(stack: Stack):
    with (
        stack.fake(),
        closing(RedisQueryEmbedder(stack.redis.url, deadline_seconds=5)) as queries,
    ):
        assert refusal(queries, "poison") == "The embedder failed on this query."
        assert queries.query("harmless")


def test_without_a_worker_the_deadline_is_waited_for_once_and_queries_do_not_pile_up(redis):
    with closing(RedisQueryEmbedder(redis.url, deadline_seconds=0.2)) as queries:
        assert [refusal(queries) for _ in range(50)] == [NO_WORKER] * 50
    assert waiting(redis, "query") == 1


def test_a_worker_that_came_back_is_asked_again(stack: Stack):
    with closing(RedisQueryEmbedder(stack.redis.url, deadline_seconds=1)) as queries:
        assert refusal(queries) == NO_WORKER
        with stack.fake():
            assert queries.query("anything")


def test_what_nobody_waits_for_any_more_is_not_embedded(stack: Stack):
    with closing(RedisQueryEmbedder(stack.redis.url, deadline_seconds=0.1)) as queries:
        refusal(queries, "given up")
        with stack.fake():
            wait_until(lambda: waiting(stack.redis, "query") == 0)
            with suppress(EmbedderUnavailable):
                queries.query("the next one")
    assert "given up" not in stack.embedded.read_text()


def test_a_late_worker_is_told_apart_from_none(stack: Stack):
    with (
        stack.fake(FAKE_SECONDS="0.5"),
        closing(RedisQueryEmbedder(stack.redis.url, deadline_seconds=0.1)) as queries,
    ):
        assert refusal(queries) == "The embedder took longer than 0.1 seconds."


def test_a_redis_that_is_away_is_left_alone_for_a_while_and_then_asked_again(stack: Stack):
    now = [0.0]
    with (
        stack.fake(),
        closing(RedisQueryEmbedder(stack.redis.url, 5, clock=lambda: now[0])) as queries,
    ):
        stack.redis.stop()
        assert refusal(queries) == QUEUE_DOWN
        stack.redis.start()
        assert refusal(queries) == QUEUE_DOWN
        now[0] += 2.1
        assert queries.query("anything")


def test_more_queries_at_once_than_an_embedder_can_answer_are_refused(redis):
    with (
        closing(Exchange(redis.url, 1)) as exchange,
        closing(RedisQueryEmbedder(redis.url, deadline_seconds=1)) as queries,
        ThreadPoolExecutor(MOST_AT_ONCE + 1) as threads,
    ):
        exchange.beat()  # of a worker that answers nothing
        refusals = list(threads.map(lambda _: refusal(queries), range(MOST_AT_ONCE + 1)))
    assert refusals.count(TOO_MANY) == 1


def test_ten_thousand_nudges_leave_one_in_the_queue(redis):
    nudges = NudgeThread(redis.url)
    nudges.start()
    with closing(Exchange(redis.url, 1)) as exchange:
        exchange.beat()  # of a worker that takes nothing
        for _ in range(10_000):
            nudges.nudge()
        wait_until(lambda: waiting(redis, "drain") == 1)
        nudges.nudge()
        wait_until(lambda: not nudges._nudged.is_set())
        assert waiting(redis, "drain") == 1
        exchange.clear_nudge()
        nudges.nudge()
        wait_until(lambda: waiting(redis, "drain") == 2)
    nudges.stop(5)
    assert not nudges._thread.is_alive()


def test_a_nudge_neither_waits_nor_fails_without_a_redis():
    nudges = NudgeThread("redis://127.0.0.1:1/0")
    before = threading.active_count()
    nudges.start()
    for _ in range(1000):
        nudges.nudge()
    assert threading.active_count() < before + 50
    nudges.stop(5)


def call(gateway, tool, **arguments):
    request = modern("tools/call", name=tool, arguments=arguments)
    names = MODERN | {"Mcp-Method": "tools/call", "Mcp-Name": tool}
    with httpx2.Client(timeout=SECONDS, headers=AUTHORIZED | ACCEPT) as web:
        response = web.post(gateway.url, json=request, headers=names)
    return message(response)["result"]["structuredContent"]


def found(gateway, text):
    return call(gateway, "memory_search", query=text)


def test_a_gateway_writes_and_searches_by_words_while_redis_is_away_and_by_meaning_after(
    stack: Stack,
):
    with stack.fake() as worker, gateway_over(stack.process, **stack.settings()) as gateway:
        call(gateway, "memory_set", key="before", value="the cat sleeps")
        wait_until(lambda: found(gateway, "the cat")["mode"] == "hybrid", about=worker.said)
        stack.redis.stop()
        call(gateway, "memory_set", key="meanwhile", value="the dog barks")
        lexical = found(gateway, "dog")
        assert lexical["mode"] == "lexical"
        assert lexical["degraded"] == QUEUE_DOWN
        assert call(gateway, "memory_stats")["degraded"] == QUEUE_DOWN
        assert lexical["hits"][0]["fact"]["key"] == "meanwhile"
        stack.redis.start()
        wait_until(lambda: found(gateway, "the dog")["mode"] == "hybrid")
        wait_until(stack.has(2))
        assert found(gateway, "the dog")["hits"][0]["cosine"] is not None


def test_models_are_never_mixed_while_everything_is_embedded_anew(stack: Stack):
    stack.write(30)
    with gateway_over(stack.process, **stack.settings()) as gateway:
        with stack.fake("one"):
            wait_until(stack.has(30))
            assert found(gateway, "fact number 7")["mode"] == "hybrid"
        with stack.fake("two", FAKE_SECONDS="0.05"):
            answers = []
            wait_until(lambda: answers.append(found(gateway, "fact number 7")) or stack.has(30)())
            assert {len(answer["hits"]) for answer in answers} == {5}
            stats = call(gateway, "memory_stats")
            assert stats["model"] == FakeEmbedder("two").identity.id
            assert stats["backlog"]["pending"] == 0
            assert stats["degraded"] is None


def test_a_name_that_nobody_resolves_holds_up_one_query_and_not_for_long(monkeypatch):
    begun, ended, answered = [], [], threading.Event()

    def look_up(host, *_arguments, **_options):
        begun.append(host)
        answered.wait(SECONDS)
        ended.append(host)
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with closing(RedisQueryEmbedder("redis://redis.invalid/0", deadline_seconds=0.1)) as queries:
        assert [refusal(queries) for _ in range(20)] == [QUEUE_DOWN] * 20
        assert queries.trouble() == QUEUE_DOWN
        assert queries.conditions() == {"queue": "down", "model": "unknown"}
        assert (len(begun), len(ended)) == (1, 0)
        answered.set()


def test_the_queue_and_the_worker_behind_it_are_told_apart(redis, stack: Stack):
    with (
        closing(RedisQueryEmbedder(redis.url)) as alone,
        closing(RedisQueryEmbedder(stack.redis.url)) as served,
    ):
        assert alone.conditions() == {"queue": "ok", "model": "down"}
        with stack.fake("one"):
            wait_until(lambda: served.conditions() == {"queue": "ok", "model": "ok"})
        redis.stop()
        assert alone.conditions() == {"queue": "down", "model": "unknown"}
