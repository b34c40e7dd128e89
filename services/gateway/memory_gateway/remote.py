"""The gateway as a process of its own, over a store that serves elsewhere."""

import logging
from collections.abc import Generator
from contextlib import AbstractContextManager, closing, contextmanager

from memory_embedder.settings import EmbedderSettings, RedisSettings
from memory_gateway.embedding import Embedding, embedding, queued_embedding
from memory_gateway.memory import CannotOpen, Memory
from memory_store.client import HttpStore
from memory_store.contract import Store, StoreError, Unavailable
from memory_store.settings import ClientSettings

logger = logging.getLogger(__name__)


@contextmanager
def reach_memory(
    address: ClientSettings, embedder: EmbedderSettings, redis: RedisSettings, *, drains: bool
) -> Generator[Memory]:
    """With a Redis, and unless this process `drains`, a worker behind it embeds everything.

    A store that does not answer yet prevents nothing: it is asked again with every call.

    Raises `CannotOpen` when what answers will never be of use.
    """
    with (
        closing(_connect(address)) as store,
        _embedding(store, embedder, redis, drains=drains) as embeds,
    ):
        _greet(store, address)
        yield Memory(store, embeds.queries, embeds.nudge)


def _embedding(
    store: Store, embedder: EmbedderSettings, redis: RedisSettings, *, drains: bool
) -> AbstractContextManager[Embedding]:
    if redis.url and not drains:
        return queued_embedding(embedder, redis.url.get_secret_value())
    return embedding(store, embedder, drains=drains)


def _connect(address: ClientSettings) -> HttpStore:
    secret = address.secret.get_secret_value()
    return HttpStore(address.url or "", secret)  # pyright: ignore[reportAbstractUsage]  its methods are drawn from the contract


def _greet(store: Store, address: ClientSettings) -> None:
    try:
        store.namespace_list()
    except Unavailable as error:
        logger.warning("the store at %s does not answer yet: %s", address.url, error.message)
    except StoreError as error:
        raise CannotOpen(f"The store at {address.url} cannot be used: {error.message}") from error
