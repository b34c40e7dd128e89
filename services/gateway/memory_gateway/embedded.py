"""Store, embedder and gateway in one process."""

import os
import secrets
import socket
from collections.abc import Generator
from contextlib import contextmanager

from memory_embedder.client import LocalQueryEmbedder, NoEmbedder
from memory_embedder.onnx import OnnxEmbedder
from memory_embedder.settings import EmbedderSettings
from memory_embedder.worker import DrainThread
from memory_gateway.memory import Memory
from memory_store.contract import StoreError
from memory_store.opening import NotOurs, SchemaTooNew, open_store
from memory_store.settings import StoreSettings
from memory_store.store import SqlStore

CLOSING_SECONDS = 1.0
EMBEDDINGS_OFF = "Embeddings are switched off (MCP_EMBEDDINGS), so the ranking is by words alone."


class CannotOpen(Exception):
    """The store cannot be opened. The message says why."""


@contextmanager
def open_memory(store: StoreSettings, embedder: EmbedderSettings) -> Generator[Memory]:
    """Opens the store and starts its embedder; both end with the context, the store last.

    Raises `CannotOpen`.
    """
    opened = _open(store)
    try:
        if embedder.embeddings:
            with _embedding(opened, embedder) as memory:
                yield memory
        else:
            yield Memory(opened, NoEmbedder(EMBEDDINGS_OFF), hurry=opened.stop_waiting)
    finally:
        opened.close()


def _open(settings: StoreSettings) -> SqlStore:
    try:
        return open_store(settings)
    except (NotOurs, SchemaTooNew, StoreError, OSError) as error:
        raise CannotOpen(f"The memory in {settings.place} cannot be opened: {error}") from error


@contextmanager
def _embedding(store: SqlStore, settings: EmbedderSettings) -> Generator[Memory]:
    embedder = OnnxEmbedder(
        settings.embedding_model, settings.model_folders, settings.embedding_threads
    )
    drain = DrainThread(store, embedder, _owner(), preload=settings.preload_model)
    queries = LocalQueryEmbedder(embedder, settings.query_deadline_ms / 1000)
    drain.start()
    try:
        yield Memory(store, queries, drain.nudge, store.stop_waiting)
    finally:
        store.stop_waiting(CLOSING_SECONDS)  # the embedder's thread may wait for the lock too
        queries.close()
        drain.stop(CLOSING_SECONDS)


def _owner() -> str:
    """A name for leases that no other process has, on this machine or another."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
