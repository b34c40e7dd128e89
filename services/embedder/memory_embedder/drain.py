"""Embeds what awaits it. Knows no queue and no thread: whoever has a nudge or a timer calls it."""

import contextlib
import logging
import time
from collections.abc import Callable, Sequence

from memory_embedder.contract import Embedder, EmbedderUnavailable
from memory_store.contract import Change, Invalid, Store, StoreError, SubjectVectors

BATCH = 8  # few, so that no lease runs out and other workers get their share
LEASE_SECONDS = 20.0  # after which another takes over what a dead worker had
FAILED = "The embedder failed on this text."

log = logging.getLogger(__name__)


def drain(
    store: Store,
    embedder: Embedder,
    owner: str,
    interrupted: Callable[[], bool] = lambda: False,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Embeds changes, oldest first, until none is left or `interrupted` between two texts.

    Returns how many facts got their vectors. A text that the embedder fails on is reported to the
    store and holds up no other. Raises `EmbedderUnavailable` and the store's errors, having given
    back what it took: neither is a fault of the texts.
    """
    model = embedder.identity.id
    embedded = 0
    while not interrupted() and (changes := _take(store, owner, model)):
        late = clock() + LEASE_SECONDS / 2

        def enough(late: float = late) -> bool:
            return interrupted() or clock() > late

        try:
            embedded += _drain(store, embedder, owner, changes, enough)
        except Invalid:
            # Leases that run out count as tries, so vectors that the store will never take end.
            raise
        except (EmbedderUnavailable, StoreError):
            with contextlib.suppress(StoreError):
                store.change_release(owner)
            raise
    return embedded


def _take(store: Store, owner: str, model: str) -> list[Change]:
    return store.change_take(owner, model, limit=BATCH, lease_seconds=LEASE_SECONDS)


def _drain(
    store: Store,
    embedder: Embedder,
    owner: str,
    changes: Sequence[Change],
    enough: Callable[[], bool],
) -> int:
    """Embeds a batch, or with long texts the part of it that its lease is sure to last for."""
    vectors: list[SubjectVectors] = []
    done = 0
    for change in changes:
        if done and enough():
            break
        vectors += _vectors(store, embedder, owner, change)
        done += 1
    embedded = store.vector_put(owner, embedder.identity.id, vectors) if vectors else 0
    if done < len(changes):
        store.change_release(owner)
    return embedded


def _vectors(store: Store, embedder: Embedder, owner: str, change: Change) -> list[SubjectVectors]:
    try:
        return [_embed(embedder, change)]
    except EmbedderUnavailable:
        raise
    except Exception:
        log.exception("embedding change %d failed", change.sequence)
        store.change_fail(owner, change.sequence, FAILED)
        return []


def _embed(embedder: Embedder, change: Change) -> SubjectVectors:
    log.debug("embedding change %d", change.sequence)
    return SubjectVectors(
        sequence=change.sequence,
        subject=change.subject,
        version=change.version,
        windows=tuple(embedder.embed(embedder.windows(change.text))),
    )
