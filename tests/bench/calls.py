"""What a client waits for, and what the server weighs, with many facts in it."""

import json
import statistics
from collections.abc import Iterator
from pathlib import Path

from corpus import facts, questions
from figures import Figure, milliseconds, percentile
from served import Served, new_database, served

FACTS = 10_000
SETS = 500
SEARCHES = 300
WARM_UP = 30
PROBES = 40


def measure(count: int = FACTS) -> Iterator[Figure]:
    with new_database() as database:
        with served(database) as memory:
            yield _tokens(memory)
            memory.remember(facts(count))
            memory.wait_until_embedded()
            yield from _searches(memory, count)
            yield from _sets(memory)
            memory.wait_until_embedded()
            yield _until_found(memory)
            yield from _weight(memory, "model loaded", 300)
        yield from _without_model(database)


def _searches(memory: Served, count: int) -> Iterator[Figure]:
    asked = questions(WARM_UP + SEARCHES)
    times = [milliseconds(lambda q=query: memory.search(q, "hybrid", 5)) for query in asked]
    name = f"memory_search over {count:,} facts"
    yield Figure(f"{name}, p50", percentile(times[WARM_UP:], 50), "ms", most=15)
    yield Figure(f"{name}, p95", percentile(times[WARM_UP:], 95), "ms")


def _sets(memory: Served) -> Iterator[Figure]:
    """While the facts are being embedded, as it is in use."""
    times = [
        milliseconds(lambda k=key, v=value: memory.call("memory_set", key=f"new/{k}", value=v))
        for key, value in facts(WARM_UP + SETS, seed=3).items()
    ]
    yield Figure("memory_set over stdio, p50", percentile(times[WARM_UP:], 50), "ms", most=5)
    yield Figure("memory_set over stdio, p99", percentile(times[WARM_UP:], 99), "ms")


def _until_found(memory: Served) -> Figure:
    """From the call that writes a fact to the answer of a search by meaning that has it."""
    times = [
        milliseconds(lambda k=key, v=value: _write_and_find(memory, f"found/{k}", v))
        for key, value in facts(PROBES, seed=4).items()
    ]
    return Figure("memory_set to found by meaning, p50", statistics.median(times), "ms")


def _write_and_find(memory: Served, key: str, value: str) -> None:
    memory.call("memory_set", key=key, value=value)
    while key not in memory.search(value, "semantic", 20):
        pass


def _weight(memory: Served, state: str, most: float) -> Iterator[Figure]:
    resident, unique = memory.memory()
    yield Figure(f"resident memory, {state}", resident, "MB", most=most)
    yield Figure(f"unique memory, {state}", unique, "MB")


def _without_model(database: Path) -> Iterator[Figure]:
    with served(database, MCP_EMBEDDINGS="off") as memory:
        for query in questions(WARM_UP):
            memory.search(query, "lexical", 5)
        for key, value in facts(WARM_UP, seed=5).items():
            memory.call("memory_set", key=key, value=value)
        yield from _weight(memory, "MCP_EMBEDDINGS=off", 130)


def _tokens(memory: Served) -> Figure:
    characters = sum(
        len(tool["name"])
        + len(tool["description"])
        + len(json.dumps(tool["inputSchema"], ensure_ascii=False, separators=(",", ":")))
        for tool in memory.client.list_tools()
    )
    return Figure("all tools, characters / 4", characters / 4, "tokens", most=2500)
