"""A store that is killed in the middle of a write storm loses nothing that it acknowledged.

`--rounds 50` kills it as often; a few times are enough for every day.
"""

import contextlib
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest

from bench.store_process import SECRET, store_process
from memory_store.client import HttpStore
from memory_store.contract import Caller, FactWrite, SearchQuery, Unavailable
from memory_store.sqlite import SqliteEngine
from memory_store.store import SqlStore
from system.halves import HALVES, check_words, halves

STORM = Path(__file__).with_name("write_storm.py")
WRITERS = 6
KEYS = 25
CALLER = Caller(principal="p", source_client="c")
WAIT_SECONDS = 20


@dataclass
class Round:
    """One storm: what was acknowledged before the end, and what nobody knows about.

    An acknowledgement: kind, key, version, value. `dice` choose the moment of the end.
    """

    path: Path
    number: int
    acknowledged: list[tuple[str, str, int, str]] = field(default_factory=list)
    unknown: list[FactWrite] = field(default_factory=list)

    @property
    def dice(self) -> random.Random:
        return random.Random(self.number)

    def moment(self) -> tuple[int, float]:
        """After how many acknowledgements and how many seconds more it ends."""
        return self.dice.randint(20, 400), self.dice.uniform(0, 0.02)


def in_process(storm: Round) -> None:
    least, more = storm.moment()
    with subprocess.Popen(
        [sys.executable, str(STORM), str(storm.path), str(storm.number)],
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
    with store_process(storm.path) as served, ThreadPoolExecutor(WRITERS) as threads:
        client = HttpStore(served.url, SECRET)
        writers = [threads.submit(write_on, storm, client, writer) for writer in range(WRITERS)]
        wait_for(lambda: len(storm.acknowledged) >= least)
        time.sleep(more)  # a random moment, not a wait
        served.kill()
        for writer in writers:
            writer.result()
        client.close()


def write_on(storm: Round, store: HttpStore, writer: int) -> None:
    name = f"h{storm.number}w{writer}"
    for number in count():
        key, word = f"{name}/{number % KEYS}", f"{name}x{number}"
        write = FactWrite(key=key, value=f"the word {word}", tags=(word,), idempotency_key=word)
        try:
            fact = store.fact_set(CALLER, write)
            storm.acknowledged.append(("set", key, fact.version, fact.value))
            if number % 7 == 0:
                gone = store.fact_delete(CALLER, "default", key)
                storm.acknowledged.append(("delete", key, gone.version, gone.value))
        except Unavailable:
            storm.unknown.append(write)
            return


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.001)


@contextlib.contextmanager
def reopened(path: Path) -> Iterator[SqlStore]:
    store = SqlStore(SqliteEngine(path), log_reads=False)
    yield store
    store.close()


def rows(store, sql, **parameters):
    with store.engine.read() as session:
        return [tuple(row.values()) for row in session.all(sql, **parameters)]


@dataclass
class Killed:
    """A file after several storms: what each acknowledged, and what was found wrong after it."""

    path: Path
    rounds: list[Round]
    wrong: list[str]


@pytest.fixture(scope="module", params=[in_process, over_http], ids=["in process", "over HTTP"])
def killed(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("crash") / "memory.db"
    rounds = -(-request.config.getoption("--rounds") // 2)
    killed = Killed(path, [Round(path, number) for number in range(rounds)], [])
    for storm in killed.rounds:
        request.param(storm)
        with reopened(path) as store:
            killed.wrong += [f"round {storm.number}: {wrong}" for wrong in halves(store)]
            killed.wrong += [f"round {storm.number}: lost {lost}" for lost in missing(store, storm)]
    return killed


@pytest.fixture(scope="module")
def store(killed):
    with reopened(killed.path) as store:
        yield store


def missing(store: SqlStore, storm: Round) -> Iterator[str]:
    """What was acknowledged and is not there."""
    versions = rows(store, "SELECT key, version, value FROM fact_version")
    removed = rows(
        store, "SELECT key, version, value FROM fact_version WHERE removed_at IS NOT NULL"
    )
    there = {("set", *version) for version in versions} | {("delete", *it) for it in removed}
    yield from (f"lost: {write}" for write in storm.acknowledged if write not in there)


@pytest.mark.timeout(1800)
def test_all_that_was_acknowledged_is_there_and_no_half_of_the_rest(killed):
    assert killed.wrong == []
    assert sum(len(storm.acknowledged) for storm in killed.rounds) > 20 * len(killed.rounds)


def test_a_fact_is_found_by_the_words_that_it_has_and_no_longer_by_those_it_had(store):
    check_words(store)
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


BREAKS = {
    "a version without the event that made it": "DELETE FROM event WHERE key = 'k'",
    "an event without the version that it made": "DELETE FROM fact_version WHERE key = 'k'",
    "a removal without its event": "DELETE FROM event WHERE kind = 'delete'",
    "a removed version that is still there": "UPDATE fact_version SET removed_at = 1",
    "a fact that is not its newest version": "UPDATE fact SET version = 1",
    "a newest version that is neither there nor removed": "DELETE FROM fact WHERE key = 'k'",
    "a fact that awaits no vector": "DELETE FROM change",
    "a change without its fact": "DELETE FROM fact WHERE key = 'k'",
    "a fact without its words": "DELETE FROM fact_words_docsize",
    "words without their fact": "DELETE FROM fact WHERE key = 'k'",
    "a fact without its tags": "DELETE FROM fact_tag",
}


@pytest.mark.parametrize("kind", HALVES)
def test_half_a_write_would_be_noticed(kind, tmp_path):
    with reopened(tmp_path / "memory.db") as store:
        for key in ("k", "k", "gone"):
            store.fact_set(CALLER, FactWrite(key=key, value="v", tags=("t",)))
        store.fact_delete(CALLER, "default", "gone")
        assert list(halves(store)) == []
        connection = store.engine._writer._connection
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute(BREAKS[kind])
        assert [wrong for wrong in halves(store) if wrong.startswith(f"{kind}: ")]
