"""What a worker behind the queue costs: its queries, idle and busy, and its speed."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import psutil
from corpus import facts, questions
from figures import Figure, milliseconds, percentile
from served import CannotMeasure, new_database
from store_process import SECRET, StoreProcess, store_process

from memory_embedder.exchange import QUEUE_ERRORS, Exchange
from memory_embedder.onnx import OnnxEmbedder
from memory_embedder.remote import NudgeThread, RedisQueryEmbedder
from memory_embedder.settings import read
from memory_store.client import HttpStore
from memory_store.contract import Caller, FactWrite

FACTS = 2_000
ASKED = 300
WRITTEN = 40
START_SECONDS = 30.0
WORKER = [sys.executable, "-m", "memory_embedder.main"]
CALLER = Caller(principal="bench", source_client="bench")
SLOWEST_BUSY_QUERY = 150
SLOWEST_TO_MEANING = 300
LEAST_SHARE = 0.8
MOST_MEGABYTES = 200


def measure() -> Iterator[Figure]:
    with (
        store_and_queue() as (serving, store, redis),
        closing(RedisQueryEmbedder(redis, deadline_seconds=10)) as queries,
    ):
        write(store, facts(FACTS))
        with worker_process(serving.url, redis) as worker:
            wait(lambda: pending(store) == 0, 300)
            yield from _queries(queries, "idle", 0, None)
            yield from _to_meaning(store, redis)
        bare = _bare_speed()
        write(store, facts(FACTS, seed=3))
        with worker_process(serving.url, redis) as worker:
            yield from _speed(store, bare)
            write(store, facts(FACTS, seed=4))
            yield from _queries(queries, "busy", ASKED, SLOWEST_BUSY_QUERY)
            yield Figure("facts pending after the busy queries", pending(store), "", least=1)
            yield Figure("worker, memory", _megabytes(worker), "MB", most=MOST_MEGABYTES)


def _queries(
    queries: RedisQueryEmbedder, when: str, skipped: int, slowest: float | None
) -> Iterator[Figure]:
    asked = questions(skipped + ASKED)[skipped:]
    times = [milliseconds(lambda text=text: queries.query(text)) for text in asked]
    yield Figure(f"query through the queue, {when}, p50", percentile(times, 50), "ms")
    yield Figure(f"query through the queue, {when}, p95", percentile(times, 95), "ms", most=slowest)


def _to_meaning(store: HttpStore, redis: str) -> Iterator[Figure]:
    nudges = NudgeThread(redis)
    nudges.start()
    times = [milliseconds(lambda n=n: _embed_one(store, nudges, n)) for n in range(WRITTEN)]
    nudges.stop(1)
    p50, p95 = (percentile(times, percent) for percent in (50, 95))
    yield Figure("from a write to its vector, p50", p50, "ms", most=SLOWEST_TO_MEANING)
    yield Figure("from a write to its vector, p95", p95, "ms")


def _embed_one(store: HttpStore, nudges: NudgeThread, number: int) -> None:
    store.fact_set(CALLER, FactWrite(key=f"single/{number}", value=f"fact {number} by itself"))
    nudges.nudge()
    wait(lambda: pending(store) == 0, 30)


def _speed(store: HttpStore, bare: float) -> Iterator[Figure]:
    wait(lambda: store.stats().backlog.pending < FACTS, 60)
    before, start = pending(store), time.perf_counter()
    wait(lambda: pending(store) == 0, 300, pause=0.5)
    speed = before / (time.perf_counter() - start)
    yield Figure("the bare model", bare, "texts/s")
    yield Figure("one worker", speed, "texts/s")
    yield Figure("one worker, of the bare model", speed / bare, "", least=LEAST_SHARE)


def _bare_speed() -> float:
    settings = read()
    model = OnnxEmbedder(settings.embedding_model, settings.model_folders)
    model.embed(["loads the model"])
    texts = [f"{key}: {value}" for key, value in facts(FACTS // 4, seed=3).items()]
    start = time.perf_counter()
    for text in texts:
        model.embed(model.windows(text))
    return len(texts) / (time.perf_counter() - start)


def write(store: HttpStore, values: dict[str, str]) -> None:
    writes = [FactWrite(key=key, value=value) for key, value in values.items()]
    for begin in range(0, len(writes), 100):
        store.fact_set_many(CALLER, writes[begin : begin + 100])


def pending(store: HttpStore) -> int:
    return store.stats().backlog.pending


def wait(condition: Callable[[], bool], seconds: float, pause: float = 0.02) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise CannotMeasure("the worker did not get done in time")
        time.sleep(pause)


def _megabytes(worker: subprocess.Popen[bytes]) -> float:
    return psutil.Process(worker.pid).memory_info().rss / 2**20


@contextmanager
def store_and_queue() -> Iterator[tuple[StoreProcess, HttpStore, str]]:
    """A store in a process of its own, a client of it, and the address of a Redis, all empty."""
    with (
        new_database() as database,
        store_process(database) as serving,
        closing(HttpStore(serving.url, SECRET)) as store,
        redis_server() as redis,
    ):
        yield serving, store, redis


@contextmanager
def redis_server() -> Iterator[str]:
    program = shutil.which("redis-server")
    if program is None:
        raise CannotMeasure("redis-server is not installed here")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    with subprocess.Popen([program, *options], stdout=subprocess.DEVNULL) as process:
        try:
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            process.kill()


@contextmanager
def worker_process(store: str, redis: str) -> Iterator[subprocess.Popen[bytes]]:
    settings = {"MCP_STORE_URL": store, "MCP_STORE_SECRET": SECRET, "MCP_REDIS_URL": redis}
    log = subprocess.DEVNULL
    with subprocess.Popen(WORKER, env=os.environ | settings, stdout=log, stderr=log) as process:
        try:
            with closing(Exchange(redis, 1)) as exchange:
                wait(lambda: _is_present(exchange), START_SECONDS)
            yield process
        finally:
            process.terminate()


def _is_present(exchange: Exchange) -> bool:
    try:
        return exchange.is_present()
    except QUEUE_ERRORS:
        return False
