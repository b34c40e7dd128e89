"""Writes from several threads until it is killed; prints each write once it was acknowledged."""

import itertools
import sys
import threading

from memory_store.contract import Caller, FactWrite
from memory_store.opening import open_store
from memory_store.settings import StoreSettings
from memory_store.store import SqlStore

THREADS = 6
KEYS = 25


def storm(store: SqlStore, name: str, out: threading.Lock) -> None:
    caller = Caller(principal="storm", source_client=name)
    for number in itertools.count():
        key = f"{name}/{number % KEYS}"
        word = f"{name}x{number}"
        fact = store.fact_set(caller, FactWrite(key=key, value=f"the word {word}", tags=(word,)))
        acknowledged(out, "set", key, fact.version, fact.value)
        if number % 7 == 0:
            gone = store.fact_delete(caller, "default", key)
            acknowledged(out, "delete", key, gone.version, gone.value)


def acknowledged(out: threading.Lock, *columns: object) -> None:
    with out:
        print(*columns, sep="\t", flush=True)


if __name__ == "__main__":
    out = threading.Lock()
    store = open_store(StoreSettings())
    for number in range(THREADS):
        name = f"r{sys.argv[1]}t{number}"
        threading.Thread(target=storm, args=(store, name, out)).start()
