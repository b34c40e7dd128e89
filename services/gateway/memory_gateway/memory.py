"""The memory that the gateway serves."""

from collections.abc import Callable
from dataclasses import dataclass

from memory_embedder.contract import QueryEmbedder
from memory_store.contract import Store


def nobody() -> None: ...


class CannotOpen(Exception):
    """The store cannot be opened. The message says why."""


@dataclass(frozen=True)
class Memory:
    """A store, what embeds queries for it, and who wants to hear of writes.

    `nudge` is called after every write; `hurry` ends the waiting for locks: from then on a write
    that finds one fails with `Busy`. Both return at once and never raise.
    """

    store: Store
    embedder: QueryEmbedder
    nudge: Callable[[], None] = nobody
    hurry: Callable[[], None] = nobody
