"""Memories under test that move: the two ends, a memory with all that there can be, its tables."""

import struct
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from fakes import DIMENSION, FakeEmbedder
from memory_store.contract import TokenGrant
from memory_store.engine import Embedding, Engine
from memory_store.moving import TABLES, Place
from memory_store.postgres import PostgresEngine, PostgresPlace
from memory_store.sqlite import SqliteEngine, SqlitePlace
from memory_store.store import SqlStore
from memory_store.tokens import digest_of
from postgres_server import shared_server
from store.holders import Clock, Hand, Meaning
from store.whole import ALICE, BOB, populate

PATIENCE_MS = 1000
LAST_NUMBERS = {
    "sqlite": "SELECT seq AS n FROM sqlite_sequence WHERE name = '{table}'",
    "postgres": "SELECT last_value AS n FROM {table}_{column}_seq",
}


@dataclass(frozen=True)
class End:
    place: Place
    engine: Callable[[], Engine]

    def store(self, **options: Any) -> SqlStore:
        return SqlStore(self.engine(), **options)


def file_end(path: Path) -> End:
    return End(SqlitePlace(path), lambda: SqliteEngine(path, PATIENCE_MS))


def server_end(url: str) -> End:
    return End(PostgresPlace(url, PATIENCE_MS), lambda: PostgresEngine(url, PATIENCE_MS))


def copy_database(url: str, target: str) -> None:
    """Puts a copy of a database, which nobody uses, in the place of another."""
    server = shared_server()
    server.drop(target)
    template, name = (address.rpartition("/")[2] for address in (url, target))
    server.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")


def fill(store: SqlStore, clock: Clock) -> dict[str, str]:
    """Everything that a memory can hold, some of it in every state that it can be in.

    Returns what its tokens are proved by.
    """
    alice, bob = Hand(store, ALICE), Hand(store, BOB)
    populate(store, clock)
    Meaning(store, FakeEmbedder(name="older")).catch_up()
    alice.set("long", " ".join(f"word{number}" for number in range(200)))
    meaning = Meaning(store, FakeEmbedder())
    meaning.catch_up()
    _keep_random_vectors(store)
    alice.set("once", "only", idempotency_key="retried")
    bob.delete("once", idempotency_key="gone")
    for state in ("failed", "leased", "pending"):
        alice.set(f"embedding/{state}", state)
    _fail(meaning, "embedding/failed")
    store.change_take("lost worker", meaning.model, limit=1)
    alice.set("the last number", "is not given again")
    alice.delete("the last number")
    return _make_tokens(store)


def _make_tokens(store: SqlStore) -> dict[str, str]:
    digests = {}
    for name in ("plain", "rotated", "revoked", "gué 🔑"):
        grant = TokenGrant(name=name, scopes=("read", "write"), namespaces=("default", "work/💼"))
        digests[name] = digest_of(store.token_create(ALICE, grant).secret)
    digests["new"] = digest_of(store.token_rotate(ALICE, "rotated", overlap_seconds=1000).secret)
    store.token_revoke(BOB, "revoked")
    store.token_verify(digests["plain"])
    return digests


def _fail(meaning: Meaning, key: str) -> None:
    store = meaning.store
    for _ in range(5):
        for change in store.change_take("unlucky", meaning.model, limit=1000):
            if key in change.text:
                store.change_fail("unlucky", change.sequence, "it 'fails' \u202e always")
        store.change_release("unlucky")


def _keep_random_vectors(store: SqlStore) -> None:
    """Numbers of every size, such as lose a bit where they are written in decimals."""
    random = Random(7)
    numbers = [random.uniform(-1, 1) * 10 ** random.randint(-30, 0) for _ in range(DIMENSION - 4)]
    vector = struct.pack(f"<{DIMENSION}f", *numbers, 1e-45, 1.17549435e-38, -0.0, 1.0)
    store.engine.write(
        lambda session: session.run(
            "UPDATE vector SET embedding = :vector"
            " WHERE subject = (SELECT min(subject) FROM vector)",
            vector=Embedding(vector),
        )
    )


def tables_of(engine: Engine) -> dict[str, list[dict[str, Any]]]:
    with engine.read() as session:
        return {
            table.name: [
                dict(row)
                for row in session.all(
                    f"SELECT * FROM {table.name} ORDER BY {', '.join(table.key)}"
                )
            ]
            for table in TABLES
        }


def contents(end: End) -> dict[str, list[dict[str, Any]]]:
    with closing(end.engine()) as engine:
        return tables_of(engine)


def last_numbers(engine: Engine) -> dict[str, int]:
    """The highest numbers that were given to facts and changes, whether they are there or not."""
    with engine.read() as session:
        return {
            table: session.one(LAST_NUMBERS[engine.name].format(table=table, column=column))["n"]
            for table, column in (("fact", "id"), ("change", "sequence"))
        }
