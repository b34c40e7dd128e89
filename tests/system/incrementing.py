"""Adds one to a fact as often as it is told, each time under the condition that nobody else did."""

import sys

from memory_store.contract import Caller, Conflict, Fact, FactWrite
from memory_store.opening import open_store
from memory_store.settings import StoreSettings
from memory_store.store import SqlStore


def increment(store: SqlStore, caller: Caller, key: str) -> None:
    fact = store.fact_get(caller, "default", key)
    while fact is not None:
        fact = attempt(store, caller, fact)


def attempt(store: SqlStore, caller: Caller, fact: Fact) -> Fact | None:
    """Returns the fact that won, None when this was the one."""
    value = str(int(fact.value) + 1)
    try:
        store.fact_set(caller, FactWrite(key=fact.key, value=value, expected_version=fact.version))
    except Conflict as conflict:
        return conflict.current
    return None


if __name__ == "__main__":
    name, times = sys.argv[1:]
    store = open_store(StoreSettings())
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(int(times)):
        increment(store, Caller(principal="installation", source_client=name), "counter")
    store.close()
