"""Two processes on one database: nothing is lost, and everything says whose it was."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from bench.store_process import environment_of
from databases import opened_store
from memory_store.contract import Caller, FactWrite

INCREMENTING = Path(__file__).with_name("incrementing.py")
TIMES = {"sqlite": 1000, "postgres": 300}
NAMES = ("one", "two")
LIMIT_SECONDS = 100


def start(database, name, times):
    return subprocess.Popen(
        [sys.executable, str(INCREMENTING), name, str(times)],
        env=os.environ | environment_of(database),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def all_events(store):
    cursor = None
    while True:
        page = store.event_list("default", "counter", True, limit=1000, cursor=cursor)
        yield from page.events
        if (cursor := page.next_cursor) is None:
            return


def test_contended_increments_of_two_processes_end_exactly(database):
    store = opened_store(database)
    times = TIMES[store.engine.name]
    creator = Caller(principal="installation", source_client="creator")
    store.fact_set(creator, FactWrite(key="counter", value="0"))
    processes = [start(database, name, times) for name in NAMES]
    assert [process.stdout.readline() for process in processes] == ["ready\n"] * 2
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    errors = [process.communicate(timeout=LIMIT_SECONDS)[1] for process in processes]

    assert errors == [""] * 2
    fact = store.fact_get(creator, "default", "counter")
    assert (fact.value, fact.version) == (str(2 * times), 2 * times + 1)
    events = list(all_events(store))
    sets = [event for event in reversed(events) if event.kind == "set"]
    assert [event.value_after for event in sets] == [str(n) for n in range(2 * times + 1)]
    assert Counter(event.source_client for event in sets) == {"creator": 1} | dict.fromkeys(
        NAMES, times
    )
    lost = {event.source_client for event in events if event.kind == "conflict"}
    assert lost == set(NAMES), "the two never met"
    reads = Counter(event.source_client for event in events if event.kind == "get")
    assert reads == dict.fromkeys(NAMES, times)
    store.close()
