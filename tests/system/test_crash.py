"""A store that is killed in the middle of a write storm loses nothing that it acknowledged.

`--rounds 50` kills it as often on SQLite, and 20 times on Postgres; a few are enough for every day.
"""

import contextlib
import math
import os
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from bench.store_process import SECRET, Database, environment_of, store_process
from databases import ENGINES, new_database, opened_store
from memory_store.client import HttpStore
from memory_store.contract import FactWrite, SearchQuery
from memory_store.operations.check import check
from store.whole import silent
from system.halves import KINDS, halves
from system.storms import CALLER, WRITERS, Round, missing, rows, wait_for, write_on

STORM = Path(__file__).with_name("write_storm.py")


def in_process(storm: Round) -> None:
    least, more = storm.moment()
    with subprocess.Popen(
        [sys.executable, str(STORM), str(storm.number)],
        env=os.environ | environment_of(storm.database),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        lines = [process.stdout.readline() for _ in range(least)]
        time.sleep(more)  # a random moment, not a wait
        process.kill()
        lines += process.stdout.readlines()
    assert process.returncode == -9
    for line in lines:
        if line.endswith("\n"):
            kind, key, version, value = line.rstrip("\n").split("\t")
            storm.acknowledged.append((kind, key, int(version), value))


def over_http(storm: Round) -> None:
    least, more = storm.moment()
    with store_process(storm.database) as served, ThreadPoolExecutor(WRITERS) as threads:
        client = HttpStore(served.url, SECRET)
        writers = [threads.submit(write_on, storm, client, writer) for writer in range(WRITERS)]
        wait_for(lambda: len(storm.acknowledged) >= least)
        time.sleep(more)  # a random moment, not a wait
        served.kill()
        for writer in writers:
            writer.result()
        client.close()


@dataclass
class Killed:
    """A database after several storms: what each acknowledged, and what was found wrong after."""

    database: Database
    rounds: list[Round]
    wrong: list[str]


STORMS = {
    f"{name} on {engine}": (engine, storm)
    for engine in ENGINES
    for name, storm in (("in process", in_process), ("over HTTP", over_http))
}
SHARE = {"sqlite": 1.0, "postgres": 0.4}
"""How many of the rounds: each takes longer on Postgres."""


@pytest.fixture(scope="module", params=STORMS)
def killed(request, tmp_path_factory):
    engine, storm = STORMS[request.param]
    rounds = math.ceil(request.config.getoption("--rounds") / 2 * SHARE[engine])
    with new_database(engine, tmp_path_factory.mktemp("crash")) as database:
        killed = Killed(database, [Round(database, number) for number in range(rounds)], [])
        for one in killed.rounds:
            storm(one)
            with contextlib.closing(opened_store(database)) as store:
                wrong = [*halves(store), *missing(store, one)]
                wrong += check(store.engine, silent()).findings
                killed.wrong += [f"round {one.number}: {each}" for each in wrong]
        yield killed


@pytest.fixture(scope="module")
def store(killed):
    with contextlib.closing(opened_store(killed.database)) as store:
        yield store


@pytest.mark.timeout(1800)
def test_all_that_was_acknowledged_is_there_and_no_half_of_the_rest(killed):
    assert killed.wrong == []
    assert sum(len(storm.acknowledged) for storm in killed.rounds) > 20 * len(killed.rounds)


def test_a_fact_is_found_by_the_words_that_it_has_and_no_longer_by_those_it_had(store):
    facts = rows(
        store,
        "SELECT f.key, v.value FROM fact f JOIN fact_version v"
        " ON v.namespace_id = f.namespace_id AND v.key = f.key AND v.version = f.version",
    )
    replaced = rows(store, "SELECT DISTINCT key, value FROM fact_version")
    for key, value in facts[::5]:
        assert found(store, value) == [key]
    for _, value in sorted({*replaced} - {*facts})[::50]:
        assert found(store, value) == []


def found(store, value):
    query = SearchQuery(text=value.split()[-1], limit=100)
    return [hit.fact.key for hit in store.fact_search(CALLER, query).hits]


def test_a_write_that_nobody_answered_is_there_once_when_it_is_tried_again(killed, store):
    unknown = [write for storm in killed.rounds for write in storm.unknown]
    for write in unknown:
        fact = store.fact_set(CALLER, write)
        made = "SELECT version FROM fact_version WHERE key = :key AND value = :value"
        assert rows(store, made, key=write.key, value=write.value) == [(fact.version,)]
    assert list(halves(store)) == []


WORDS = {"sqlite": "fact_words_docsize", "postgres": "fact_word"}
BREAKS = {
    "a version without the event that made it": "DELETE FROM event WHERE key = 'k'",
    "an event without the version that it made": "DELETE FROM fact_version WHERE key = 'k'",
    "a removal without its event": "DELETE FROM event WHERE kind = 'delete'",
    "a removed version that is still there": "UPDATE fact_version SET removed_at = 1",
    "a fact that is not its newest version": "UPDATE fact SET version = 1",
    "a newest version that is neither there nor removed": "DELETE FROM fact WHERE key = 'k'",
    "a fact that awaits no vector": "DELETE FROM change",
    "a change without its fact": "DELETE FROM fact WHERE key = 'k'",
    "a fact without its words": "DELETE FROM {words}",
    "words without their fact": "DELETE FROM fact WHERE key = 'k'",
    "a fact without its tags": "DELETE FROM fact_tag",
}


def break_it(database: Database, sql: str) -> None:
    """Runs it past everything by which a database keeps its tables in step."""
    if isinstance(database, str):
        with psycopg.connect(database) as connection:
            connection.execute("SET session_replication_role = replica")
            connection.execute("SET search_path = memory_bridge, public")
            connection.execute(sql)
    else:
        with contextlib.closing(sqlite3.connect(database)) as connection, connection:
            connection.execute(sql)


@pytest.mark.parametrize("kind", KINDS)
def test_half_a_write_would_be_noticed(kind, database):
    with contextlib.closing(opened_store(database)) as store:
        for key in ("k", "k", "gone"):
            store.fact_set(CALLER, FactWrite(key=key, value="v", tags=("t",)))
        store.fact_delete(CALLER, "default", "gone")
        assert list(halves(store)) == []
        break_it(database, BREAKS[kind].format(words=WORDS[store.engine.name]))
        assert [wrong for wrong in halves(store) if wrong.startswith(f"{kind}: ")]
