"""The model in the gateway's own process, or in a worker's behind a queue."""

import os
import secrets
import socket
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from memory_embedder.client import LocalQueryEmbedder, NoEmbedder
from memory_embedder.contract import QueryEmbedder
from memory_embedder.opening import open_embedder
from memory_embedder.settings import EmbedderSettings
from memory_embedder.worker import DrainThread
from memory_gateway.memory import CannotOpen, nobody
from memory_store.contract import Store

CLOSING_SECONDS = 1.0
EMBEDDINGS_OFF = "Embeddings are switched off (MCP_EMBEDDINGS), so the ranking is by words alone."
NO_QUEUE = (
    "The packages that reach the embedder through Redis are not installed. Install"
    " mcp-memory-bridge[queue], or set MCP_EMBED_CHANGES=on to embed here."
)


@dataclass(frozen=True)
class Embedding:
    """What embeds queries, and whom to tell that something was written."""

    queries: QueryEmbedder
    nudge: Callable[[], None] = nobody


@contextmanager
def embedding(store: Store, settings: EmbedderSettings, *, drains: bool) -> Generator[Embedding]:
    """`drains` says whether what is written gets its vectors here too. Ends with the context."""
    if not settings.embeddings:
        yield Embedding(NoEmbedder(EMBEDDINGS_OFF))
        return
    embedder = open_embedder(settings)
    with closing(LocalQueryEmbedder(embedder, settings.query_deadline_ms / 1000)) as queries:
        if not drains:
            yield Embedding(queries)
            return
        drain = DrainThread(store, embedder, _owner(), preload=settings.preload_model)
        drain.start()
        try:
            yield Embedding(queries, drain.nudge)
        finally:
            drain.stop(CLOSING_SECONDS)


@contextmanager
def queued_embedding(settings: EmbedderSettings, url: str) -> Generator[Embedding]:
    """What a worker elsewhere embeds, told of through the Redis at `url`. Raises `CannotOpen`."""
    if not settings.embeddings:
        yield Embedding(NoEmbedder(EMBEDDINGS_OFF))
        return
    try:
        from memory_embedder.remote import (  # noqa: PLC0415  only this pays for loading Celery
            NudgeThread,
            RedisQueryEmbedder,
        )
    except ImportError:
        raise CannotOpen(NO_QUEUE) from None

    with closing(RedisQueryEmbedder(url, settings.query_deadline_ms / 1000)) as queries:
        nudges = NudgeThread(url)
        nudges.start()
        try:
            yield Embedding(queries, nudges.nudge)
        finally:
            nudges.stop(CLOSING_SECONDS)


def _owner() -> str:
    """A name for leases that no other process has, on this machine or another."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
