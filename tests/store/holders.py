"""Who holds the contract, and how the suite speaks to each of them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memory_embedder.contract import Embedder
from memory_store.client import HttpStore
from memory_store.contract import (
    DEFAULT_NAMESPACE,
    Caller,
    Event,
    Fact,
    FactWrite,
    SearchQuery,
    SearchResult,
    Store,
    SubjectVectors,
)
from memory_store.postgres import PostgresEngine
from memory_store.sqlite import SqliteEngine
from memory_store.store import SqlStore
from postgres_server import emptied_databases
from store.serving import serve_in_thread


class Clock:
    """Milliseconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 1_767_225_600_000  # 2026-01-01T00:00:00Z

    def __call__(self) -> int:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += round(seconds * 1000)


def open_sqlite(folder: Path, **options: Any) -> SqlStore:
    return SqlStore(SqliteEngine(folder / "memory.db"), **options)


def open_postgres(folder: Path, **options: Any) -> SqlStore:
    return SqlStore(PostgresEngine(emptied_databases().url_for(folder)), **options)


def open_contained_postgres(folder: Path, **options: Any) -> SqlStore:
    from containers import reference_databases  # noqa: PLC0415 - only where there is an engine

    return SqlStore(PostgresEngine(reference_databases().url_for(folder)), **options)


class Front:
    """One server for the whole run, in front of whichever store a test has opened."""

    def __init__(self) -> None:
        self.behind: Store | None = None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def late(**arguments: Any) -> Any:
            return getattr(self.behind, name)(**arguments)

        return late

    @contextmanager
    def serving(self) -> Iterator[HttpStore]:
        url, secret, stop = serve_in_thread(self)
        client = HttpStore(url, secret)
        yield client
        client.close()
        stop()


@dataclass(frozen=True)
class Holder:
    """`opens` makes the store that has the database; `served` says whether HTTP stands before."""

    opens: Callable[..., SqlStore]
    served: bool = False


HOLDERS = {
    "sqlite": Holder(open_sqlite),
    "http": Holder(open_sqlite, served=True),
    "postgres": Holder(open_postgres),
    "postgres http": Holder(open_postgres, served=True),
}

# The published image, for the suite: what `HOLDERS` starts is a Postgres of its own build.
CONTAINED = {"postgres in a container": Holder(open_contained_postgres)}


@dataclass(frozen=True)
class Hand:
    """A caller at a store, in one namespace: what a test would otherwise repeat in every line."""

    store: Store
    caller: Caller
    namespace: str = DEFAULT_NAMESPACE

    def set(self, key: str, value: str = "v", **fields: Any) -> Fact:
        return self.store.fact_set(self.caller, self.write(key, value, **fields))

    def write(self, key: str, value: str = "v", **fields: Any) -> FactWrite:
        return FactWrite(namespace=self.namespace, key=key, value=value, **fields)

    def get(self, key: str, at: Any = None) -> Fact | None:
        return self.store.fact_get(self.caller, self.namespace, key, at)

    def delete(self, key: str, **options: Any) -> Fact:
        return self.store.fact_delete(self.caller, self.namespace, key, **options)

    def restore(self, key: str, version: int, **options: Any) -> Fact:
        return self.store.fact_restore(self.caller, self.namespace, key, version, **options)

    def keys(self, **options: Any) -> list[str]:
        """All keys of a list, over as many pages as it takes."""
        page = self.store.fact_list(self.caller, self.namespace, **options)
        keys = [fact.key for fact in page.facts]
        while page.next_cursor is not None:
            options["cursor"] = page.next_cursor
            page = self.store.fact_list(self.caller, self.namespace, **options)
            keys += [fact.key for fact in page.facts]
        return keys

    def search(self, text: str, **fields: Any) -> SearchResult:
        query = SearchQuery(namespace=self.namespace, text=text, **fields)
        return self.store.fact_search(self.caller, query)

    def found(self, text: str, **fields: Any) -> list[str]:
        return [hit.fact.key for hit in self.search(text, **fields).hits]

    def events(self, key: str | None = None, **options: Any) -> list[Event]:
        """All events, over as many pages as it takes."""
        page = self.store.event_list(self.namespace, key, limit=1000, **options)
        events = [*page.events]
        while page.next_cursor is not None:
            options["cursor"] = page.next_cursor
            page = self.store.event_list(self.namespace, key, limit=1000, **options)
            events += page.events
        return events


@dataclass
class Meaning:
    """An embedder at work on a store: `catch_up` embeds what waits, `query` asks with a vector."""

    store: Store
    embedder: Embedder
    owner: str = "worker"
    used: bool = field(default=False, init=False)

    @property
    def model(self) -> str:
        return self.embedder.identity.id

    def catch_up(self) -> int:
        if not self.used:
            self.store.model_use(self.embedder.identity)
            self.used = True
        taken = 0
        while changes := self.store.change_take(self.owner, self.model, limit=200):
            taken += self.store.vector_put(
                self.owner,
                self.model,
                [
                    self.vectors(change.sequence, change.subject, change.version, change.text)
                    for change in changes
                ],
            )
        return taken

    def vectors(self, sequence: int, subject: int, version: int, text: str) -> SubjectVectors:
        return SubjectVectors(
            sequence=sequence,
            subject=subject,
            version=version,
            windows=tuple(self.embedder.embed(self.embedder.windows(text))),
        )

    def query(self, text: str) -> dict[str, Any]:
        """The fields of a query that carry its vector."""
        vector, *_ = self.embedder.embed([text])
        return {"text": text, "vector": vector, "model": self.model}
