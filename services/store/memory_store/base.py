"""What every part of the store stands on: the engine, the clock, the limits, one way for errors."""

import logging
import threading
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from memory_store.clock import Clock, system_clock
from memory_store.contract import Caller, EventKind, Internal, StoreError
from memory_store.engine import Engine, Question, Session
from memory_store.events import Entry, ReadTrail
from memory_store.facts import Writing
from memory_store.limits import Limits
from memory_store.tokens import Uses
from memory_store.upkeep import Upkeep

logger = logging.getLogger(__name__)
CLOSING_SECONDS = 1.0
Result = TypeVar("Result")


class StoreBase:
    """Opened on an engine, with two background threads: the read trail and the upkeep."""

    def __init__(
        self,
        engine: Engine,
        *,
        allowed: Limits | None = None,
        clock: Clock = system_clock,
        log_reads: bool = True,
    ) -> None:
        self.engine = engine
        self._limits = allowed or Limits()
        self._clock = clock
        self._reads = ReadTrail(engine) if log_reads else None
        self._closing = threading.Event()
        self._uses = Uses()
        self._upkeep = Upkeep(engine, clock, self._uses)

    def stop_waiting(self, seconds: float = 0.0) -> None:
        """From so many seconds on, a write that would wait for a lock raises `Busy` instead.

        Whoever waits for events is told at once, by `Unavailable`, that the store is closing.
        """
        self._closing.set()
        self.engine.stop_waiting(seconds)

    def close(self) -> None:
        """Writes what was accepted, the trail of reads included, and closes the database.

        What finds the database locked by others all along is given up after a second.
        """
        self.stop_waiting(CLOSING_SECONDS)
        self._upkeep.close()
        if self._reads is not None:
            self._reads.close()
        self.engine.close()

    def _writing(self, session: Session, caller: Caller) -> Writing:
        return Writing(session, self.engine, caller, self._clock())

    @contextmanager
    def _read(self) -> Generator[Session]:
        with own_errors(), self.engine.read() as session:
            yield session

    def _write(
        self,
        job: Callable[[Session], Result],
        locks: Collection[str] | None = None,
        ahead: Sequence[Question] = (),
    ) -> Result:
        with own_errors():
            return self.engine.write(job, locks, ahead)

    def _note(
        self,
        caller: Caller,
        now: int,
        namespace: str,
        kind: EventKind,
        detail: Mapping[str, object],
    ) -> None:
        if self._reads is not None:
            self._reads.add(
                [Entry(at=now, namespace=namespace, kind=kind, caller=caller, detail=dict(detail))]
            )


@contextmanager
def own_errors() -> Generator[None]:
    """Lets the contract's errors through; anything else goes to the log and comes out as one."""
    try:
        yield
    except StoreError as error:
        if isinstance(error, Internal):
            logger.exception("the store failed")
        raise
    except Exception as error:
        logger.exception("the store failed")
        raise Internal("the store failed; its log says why") from error
