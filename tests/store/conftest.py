"""Every holder of the contract, each before a new and empty database."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from fakes import FakeEmbedder
from memory_store.contract import Caller, Store
from memory_store.sqlite import SqliteEngine
from memory_store.store import SqlStore
from store.holders import CONTAINED, HOLDERS, Clock, Front, Hand, Holder, Meaning


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="session")
def front() -> Iterator[tuple[Front, Store]]:
    front = Front()
    with front.serving() as client:
        yield front, client


@pytest.fixture(
    params=[*HOLDERS, *(pytest.param(name, marks=pytest.mark.containers) for name in CONTAINED)]
)
def holder(request: pytest.FixtureRequest) -> Holder:
    return (HOLDERS | CONTAINED)[request.param]


@pytest.fixture
def opened(holder: Holder, tmp_path: Path, clock: Clock) -> Iterator[Callable[..., SqlStore]]:
    """Opens the database of a holder, with options other than the usual ones if need be."""
    with ExitStack() as stack:

        def opening(**options: Any) -> SqlStore:
            backing = holder.opens(tmp_path, **{"clock": clock} | options)
            stack.callback(backing.close)
            return backing

        yield opening


@pytest.fixture
def backing(opened: Callable[..., SqlStore]) -> SqlStore:
    """The store that has the database, whatever stands in front of it."""
    return opened()


@pytest.fixture
def reach(holder: Holder, request: pytest.FixtureRequest) -> Callable[[SqlStore], Store]:
    """Returns what a test speaks to instead of the store itself: that, or HTTP before it."""

    def through(backing: SqlStore) -> Store:
        if not holder.served:
            return backing
        front, client = request.getfixturevalue("front")
        front.behind = backing
        return client

    return through


@pytest.fixture
def store(backing: SqlStore, reach: Callable[[SqlStore], Store]) -> Store:
    return reach(backing)


@pytest.fixture
def settle(backing: SqlStore) -> Callable[[], None]:
    """Has the events of all reads so far written."""

    def write_reads() -> None:
        assert backing._reads is not None
        backing._reads.flush()

    return write_reads


@pytest.fixture
def caller() -> Caller:
    return Caller(principal="token:alice", source_client="alice")


@pytest.fixture
def alice(store: Store, caller: Caller) -> Hand:
    return Hand(store, caller)


@pytest.fixture
def bob(store: Store) -> Hand:
    return Hand(store, Caller(principal="token:bob", source_client="bob"))


@pytest.fixture
def meaning(store: Store) -> Meaning:
    return Meaning(store, FakeEmbedder())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
def opening(path: Path) -> Iterator[Callable[..., SqlStore]]:
    """Opens stores on one SQLite file, as so many processes would."""
    with ExitStack() as stack:

        def open_one(busy_timeout_ms: int = 5000, **options: Any) -> SqlStore:
            store = SqlStore(SqliteEngine(path, busy_timeout_ms), **options)
            stack.callback(store.close)
            return store

        yield open_one
