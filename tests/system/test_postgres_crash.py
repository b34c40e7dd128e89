"""A store goes on, and loses nothing, when Postgres ends under it in the middle of a write storm.

`--rounds 50` ends it 20 times; a few are enough for every day.
"""

import contextlib
import math
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import psycopg
import pytest

from bench.store_process import SECRET, store_process
from databases import opened_store
from memory_store.client import HttpStore
from memory_store.contract import FactWrite, StoreError
from memory_store.operations.check import check
from postgres_server import PostgresServer
from store.whole import silent
from system.halves import halves
from system.storms import CALLER, KEYS, WAIT_SECONDS, WRITERS, Round, missing, rows, wait_for

SHARE = 0.2
"""How many of the rounds there are for each way to end."""


def stop_at_once(server: PostgresServer) -> None:
    server.crash()
    server.start()


def kill_one_process(server: PostgresServer) -> None:
    """The server ends all its others then, and recovers by itself."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        (process,) = (
            connection.execute(
                "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'"
                " AND pid <> pg_backend_pid() AND query LIKE 'COMMIT%' LIMIT 1"
            ).fetchone()
            or connection.execute(
                "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'"
            ).fetchone()
        )
    os.kill(process, 9)


def write_on_and_on(storm: Round, store: HttpStore, writer: int, over: threading.Event) -> None:
    """Repeats what failed, with the same idempotency key, until it is answered."""
    for number in count():
        if over.is_set():
            return
        key, word = f"w{writer}/{number % KEYS}", f"w{writer}x{number}"
        write = FactWrite(key=key, value=f"the word {word}", tags=(word,), idempotency_key=word)
        fact = repeated(storm, write, lambda write=write: store.fact_set(CALLER, write))
        storm.acknowledged.append(("set", key, fact.version, fact.value))


def repeated(storm: Round, write: FactWrite, call: Callable):
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            return call()
        except StoreError as error:
            if not error.retryable or time.monotonic() > deadline:
                raise
            storm.unknown.append(write)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("end", [stop_at_once, kill_one_process])
def test_a_store_goes_on_when_postgres_ends_under_it(end, request):
    server = PostgresServer()
    rounds = math.ceil(request.config.getoption("--rounds") * SHARE)
    with contextlib.ExitStack() as stack:
        stack.callback(server.remove)
        database = server.new_database()
        storm = Round(database, 0)
        served = stack.enter_context(store_process(database))
        with ThreadPoolExecutor(WRITERS) as threads:
            over = threading.Event()
            stores = [HttpStore(served.url, SECRET) for _ in range(WRITERS)]
            writers = [
                threads.submit(write_on_and_on, storm, store, number, over)
                for number, store in enumerate(stores)
            ]
            for number in range(rounds):
                end_in_the_middle(server, end, Round(database, number), storm)
            over.set()
            for writer in writers:
                writer.result()
        assert storm.unknown, "it was never in the way"
        assert_whole(database, storm)


def end_in_the_middle(server, end, moment: Round, storm: Round) -> None:
    least, more = moment.moment()
    least += len(storm.acknowledged)
    wait_for(lambda: len(storm.acknowledged) >= least)
    time.sleep(more)  # a random moment, not a wait
    end(server)
    least = len(storm.acknowledged) + WRITERS + 1
    wait_for(lambda: len(storm.acknowledged) >= least)


def assert_whole(database: str, storm: Round) -> None:
    with contextlib.closing(opened_store(database)) as store:
        assert [*missing(store, storm)] == []
        assert [*halves(store)] == []
        assert check(store.engine, silent()).findings == ()
        twice = "SELECT value FROM fact_version GROUP BY value HAVING count(*) > 1"
        assert rows(store, twice) == []
