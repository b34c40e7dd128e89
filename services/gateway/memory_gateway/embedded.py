"""Store, embedder and gateway in one process."""

from collections.abc import Generator
from contextlib import closing, contextmanager

from memory_embedder.settings import EmbedderSettings
from memory_gateway.embedding import CLOSING_SECONDS, embedding
from memory_gateway.memory import CannotOpen, Memory
from memory_store.contract import StoreError
from memory_store.opening import NotOurs, SchemaTooNew, open_store
from memory_store.settings import StoreSettings
from memory_store.store import SqlStore


@contextmanager
def open_memory(store: StoreSettings, embedder: EmbedderSettings) -> Generator[Memory]:
    """Opens the store and starts its embedder; both end with the context, the store last.

    Raises `CannotOpen`.
    """
    with closing(_open(store)) as opened, embedding(opened, embedder, drains=True) as embeds:
        try:
            yield Memory(opened, embeds.queries, embeds.nudge, opened.stop_waiting)
        finally:
            # The embedder's thread may wait for the lock too.
            opened.stop_waiting(CLOSING_SECONDS)


def _open(settings: StoreSettings) -> SqlStore:
    try:
        return open_store(settings)
    except (NotOurs, SchemaTooNew, StoreError, OSError) as error:
        raise CannotOpen(f"The memory in {settings.place} cannot be opened: {error}") from error
