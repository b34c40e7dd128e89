"""What a store does by itself: removing what expired and what is only kept for a day."""

import contextlib
import logging
import threading

from memory_store import facts, idempotency, tokens
from memory_store.clock import Clock
from memory_store.contract import Caller, StoreError
from memory_store.engine import Engine, Session
from memory_store.facts import Writing
from memory_store.tokens import Uses

logger = logging.getLogger(__name__)

EVERY_SECONDS = 5.0
AT_ONCE = 500
"""Facts removed in one transaction, so that writes are never kept waiting for long."""
LOG_KEPT = 100_000
"""Entries of the vector log; an index that lags further behind reads the whole table anew."""
ITSELF = Caller(principal="store", source_client="store", self_reported=False)


class Upkeep:
    """A thread that looks every few seconds and takes the write lock only if there is work."""

    def __init__(self, engine: Engine, clock: Clock, uses: Uses) -> None:
        self._engine = engine
        self._clock = clock
        self._uses = uses
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="store-upkeep", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        self._thread.join()
        with contextlib.suppress(StoreError):
            write_uses(self._engine, self._uses)

    def _serve(self) -> None:
        while not self._closed.wait(EVERY_SECONDS):
            try:
                sweep(self._engine, self._clock())
                write_uses(self._engine, self._uses)
            except StoreError as error:
                logger.warning("upkeep waits: %s", error.message)
            except Exception:
                logger.exception("upkeep failed")


def sweep(engine: Engine, now: int) -> int:
    """Does what is due; returns how many facts expired."""
    expired = 0
    while _is_due(engine, now):
        removed = engine.write(lambda session: _sweep_some(engine, session, now))
        expired += removed
        if removed < AT_ONCE:
            break
    return expired


def _is_due(engine: Engine, now: int) -> bool:
    with engine.read() as session:
        return (
            facts.any_expired(session, now)
            or idempotency.any_old(session, now)
            or engine.vectors.log_is_long(session, LOG_KEPT)
        )


def _sweep_some(engine: Engine, session: Session, now: int) -> int:
    idempotency.forget_old(session, now)
    engine.vectors.cut_log(session, LOG_KEPT)
    return facts.expire(Writing(session, engine, ITSELF, now), AT_ONCE)


def write_uses(engine: Engine, uses: Uses) -> None:
    """What cannot be written now stays for the next time."""
    if not (last := uses.take()):
        return
    try:
        engine.write(lambda session: tokens.write_uses(session, last), locks=("token uses",))
    except StoreError:
        uses.put_back(last)
        raise
