"""A memory on a real store, and the server over it."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fakes import FakeEmbedder
from gateway_serving import Drain
from memory_embedder.client import LocalQueryEmbedder
from memory_gateway.mcp import MemoryServer
from memory_gateway.memory import Memory
from memory_gateway.tools.facts import tools
from memory_store.opening import open_store
from memory_store.settings import StoreSettings
from memory_store.store import SqlStore


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    with closing(open_store(StoreSettings(memory_db=tmp_path / "memory.db"))) as store:
        yield store


@pytest.fixture
def memory(store: SqlStore) -> Iterator[Memory]:
    """Every write is embedded before the answer: what was written is found by meaning at once."""
    embedder = FakeEmbedder()
    with closing(LocalQueryEmbedder(embedder, deadline_seconds=20)) as queries:
        yield Memory(store, queries, Drain(store, embedder))


@pytest.fixture
def server(memory: Memory) -> MemoryServer:
    return MemoryServer(memory, tools(demo=True))
