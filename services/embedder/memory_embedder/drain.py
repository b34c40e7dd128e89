"""Embeds what awaits it. Knows no queue and no thread: whoever has a nudge or a timer calls it."""

import contextlib
import logging
from collections.abc import Callable, Sequence

from memory_embedder.contract import Embedder, EmbedderUnavailable
from memory_store.contract import Change, Invalid, Store, StoreError, SubjectVectors

BATCH = 8  # few, so that no lease runs out and other workers get their share
FAILED = "The embedder failed on this text."

log = logging.getLogger(__name__)


def drain(
    store: Store,
    embedder: Embedder,
    owner: str,
    interrupted: Callable[[], bool] = lambda: False,
) -> int:
    """Embeds changes, oldest first, until none is left or `interrupted` between two texts.

    Returns how many facts got their vectors. A text that the embedder fails on is reported to the
    store and holds up no other. Raises `EmbedderUnavailable` and the store's errors, having given
    back what it took: neither is a fault of the texts.
    """
    model = embedder.identity.id
    embedded = 0
    while changes := store.change_take(owner, model, limit=BATCH):
        try:
            vectors = _vectors(store, embedder, owner, changes, interrupted)
            if vectors:
                embedded += store.vector_put(owner, model, vectors)
        except Invalid:
            # Leases that run out count as tries, so vectors that the store will never take end.
            raise
        except (EmbedderUnavailable, StoreError):
            with contextlib.suppress(StoreError):
                store.change_release(owner)
            raise
        if interrupted():
            store.change_release(owner)
            break
    return embedded


def _vectors(
    store: Store,
    embedder: Embedder,
    owner: str,
    changes: Sequence[Change],
    interrupted: Callable[[], bool],
) -> list[SubjectVectors]:
    vectors: list[SubjectVectors] = []
    for change in changes:
        if interrupted():
            break
        try:
            vectors.append(_embed(embedder, change))
        except EmbedderUnavailable:
            raise
        except Exception:
            log.exception("embedding change %d failed", change.sequence)
            store.change_fail(owner, change.sequence, FAILED)
    return vectors


def _embed(embedder: Embedder, change: Change) -> SubjectVectors:
    return SubjectVectors(
        sequence=change.sequence,
        subject=change.subject,
        version=change.version,
        windows=tuple(embedder.embed(embedder.windows(change.text))),
    )
