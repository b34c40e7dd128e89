"""Whole stores under test: one that holds everything a store can, and what an export says of it."""

import io
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from memory_store.contract import Caller
from memory_store.operations.export import export
from memory_store.operations.import_ import import_
from memory_store.operations.landing import Plan
from memory_store.operations.progress import Progress
from memory_store.postgres import PostgresEngine
from memory_store.store import SqlStore
from memory_store.upkeep import sweep
from postgres_server import new_database
from store.holders import Clock, Hand, Holder, open_sqlite

ALICE = Caller(principal="token:alice", source_client="alice", self_reported=False)
BOB = Caller(principal="token:bob", source_client="bob", claimed_client="bobby", request_id="7")
IMPORTER = Caller(principal="local", source_client="importer")
NASTY = [
    "plain",
    "100%_\\'\"*()",
    "NULL",
    "\u202eright to left \u05d0\u05d1",
    "e\u0301 \u00e9 \ufeff",
    "line\nline\r\n\u2028\u2029\x85\x01\x7f",
    "😀👩\u200d👩\u200d👧",
    "日本語 ไทย",
    "\U0010ffff",
    " ",
    "x" * 256,
]
NAMESPACES = ["default", "work/💼", "'; DROP TABLE fact; --"]


@contextmanager
def second_store(holder: Holder, folder: Path, **options: Any) -> Iterator[SqlStore]:
    """An empty store on the holder's kind of database, beside the one that it has opened."""
    with ExitStack() as stack:
        if holder.opens is open_sqlite:
            store = open_sqlite(folder, **options)
        else:
            url = stack.enter_context(new_database())
            store = SqlStore(PostgresEngine(url), **options)
        stack.callback(store.close)
        yield store


def silent() -> Progress:
    return Progress(io.StringIO())


def populate(store: SqlStore, clock: Clock) -> None:
    """Three namespaces of keys that are set, replaced, deleted, restored, expired and read."""
    for namespace in NAMESPACES:
        alice, bob = Hand(store, ALICE, namespace), Hand(store, BOB, namespace)
        for number, text in enumerate(NASTY):
            alice.set(text, text, tags=(text[:100], "all"), metadata={"n": number, text: [text]})
            clock.advance(0.001)
        for text in NASTY[::2]:
            bob.set(text, f"{text}{text}", metadata={"float": 1.5e300, "big": 10**30})
        bob.delete("plain")
        bob.restore("plain", 1)
        alice.delete("NULL")
        alice.set("short-lived", "gone soon", ttl_seconds=5)
        alice.set("long-lived", "stays", ttl_seconds=500_000)
        store.fact_set_many(BOB, [bob.write("plain", "no", require_absent=True)])
        bob.get("plain")
        bob.get("plain")
        bob.search("plain")
        clock.advance(10)
    sweep(store.engine, clock())
    assert store._reads is not None
    store._reads.flush()


def exported(store: SqlStore, clock: Clock) -> io.BytesIO:
    out = io.BytesIO()
    export(store.engine, out, clock, silent())
    out.seek(0)
    return out


def imported(store: SqlStore, file, clock: Clock, **choices):
    namespace = {"namespace": choices.pop("namespace")} if "namespace" in choices else {}
    plan = Plan(IMPORTER, clock, **choices)
    return import_(store.engine, file, plan, silent(), **namespace)


def lines_of(file: io.BytesIO) -> list[dict]:
    return [json.loads(line) for line in file.getvalue().splitlines()]


def without_imports(file: io.BytesIO) -> list[bytes]:
    """What an export says but for its date and the events that an import left."""
    first, *rest = file.getvalue().split(b"\n")
    kept = [line for line in rest if b'"event":"import"' not in line]
    header = json.loads(first)
    del header["exported_at"]
    header["counts"]["event"] -= len(rest) - len(kept)
    return [json.dumps(header).encode(), *kept]


def file_of(*lines: dict | bytes) -> io.BytesIO:
    texts = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    return io.BytesIO(b"".join(text + b"\n" for text in texts))
