"""The embedder of a gateway whose model is elsewhere: a worker behind the queue."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from memory_embedder.broker import BROKER_ERRORS, NUDGE, QUERY, sending
from memory_embedder.contract import Condition, EmbedderUnavailable, QueryVector
from memory_embedder.exchange import QUEUE_ERRORS, Answer, Exchange

REST_SECONDS = 2.0
"""How long the queue is left alone after it failed: nobody should wait for it in vain each time."""
MARGIN_SECONDS = 1.0
MOST_AT_ONCE = 64
QUEUE_DOWN = "The queue to the embedder (Redis) does not answer, so the ranking is by words alone."
NO_WORKER = "No embedder is at work, so the ranking is by words alone."
TOO_MANY = "The embedder has too many queries to answer, so the ranking is by words alone."

Result = TypeVar("Result")

log = logging.getLogger(__name__)


class RedisQueryEmbedder:
    """A `QueryEmbedder` over the workers behind a queue.

    It keeps no vectors: a worker does, and knows when its model has changed. After an answer that
    did not come, queries are refused at once for as long as no worker says that it is there.
    """

    def __init__(
        self,
        url: str,
        deadline_seconds: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._deadline = deadline_seconds
        self._clock = clock
        self._exchange = Exchange(url, deadline_seconds)
        self._app = sending(url, deadline_seconds)
        self._patience = _Patience(deadline_seconds + MARGIN_SECONDS)
        self._free = threading.BoundedSemaphore(MOST_AT_ONCE)
        self._rests_until = clock()
        self._doubtful = False

    def query(self, text: str) -> QueryVector:
        if self._clock() < self._rests_until:
            raise EmbedderUnavailable(QUEUE_DOWN)
        if not self._free.acquire(blocking=False):
            raise EmbedderUnavailable(TOO_MANY)
        try:
            return self._patience.have(partial(self._query, text))
        except BROKER_ERRORS as error:
            log.warning("queries go without vectors: the queue failed (%s)", type(error).__name__)
            self._rests_until = self._clock() + REST_SECONDS
            raise EmbedderUnavailable(QUEUE_DOWN) from None
        finally:
            self._free.release()

    def trouble(self) -> str | None:
        try:
            return None if self._patience.have(self._exchange.is_present) else NO_WORKER
        except QUEUE_ERRORS:
            return QUEUE_DOWN

    def conditions(self) -> Mapping[str, Condition]:
        try:
            present = self._patience.have(self._exchange.is_present)
        except QUEUE_ERRORS:
            return {"queue": "down", "model": "unknown"}
        return {"queue": "ok", "model": "ok" if present else "down"}

    def close(self) -> None:
        self._exchange.close()
        self._app.close()

    def _query(self, text: str) -> QueryVector:
        if self._doubtful and not self._exchange.is_present():
            raise EmbedderUnavailable(NO_WORKER)
        answer = self._ask(text)
        self._doubtful = answer is None
        if answer is None:
            raise EmbedderUnavailable(self._late())
        if answer.refusal is not None:
            raise EmbedderUnavailable(answer.refusal)
        return QueryVector(answer.vector, answer.model)

    def _ask(self, text: str) -> Answer | None:
        until = self._clock() + self._deadline
        name = self._exchange.ask(text, self._deadline)
        self._app.send_task(QUERY, [name], queue=QUERY)
        return self._exchange.wait(name, until - self._clock())

    def _late(self) -> str:
        if self._exchange.is_present():
            return f"The embedder took longer than {self._deadline:g} seconds."
        return NO_WORKER


class _Patience:
    """Waits for so many seconds and no longer, whatever hangs: looking up a name has no timeout.

    What hangs is left behind, and for as long as it does nobody else is sent after it.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._left_behind: Future[Any] | None = None

    def have(self, job: Callable[[], Result]) -> Result:
        """Returns what the job returns. Raises `TimeoutError`, and what the job raises."""
        if self._left_behind and not self._left_behind.done():
            raise TimeoutError
        coming: Future[Result] = Future()
        # A thread that ends with the process; those of a pool would be waited for.
        threading.Thread(target=_settle, args=(job, coming), name="queue", daemon=True).start()
        try:
            return coming.result(self._seconds)
        except TimeoutError:
            self._left_behind = coming
            raise


def _settle(job: Callable[[], Result], coming: Future[Result]) -> None:
    try:
        coming.set_result(job())
    except Exception as error:  # noqa: BLE001  whatever it is belongs to who waits for it
        coming.set_exception(error)


class NudgeThread:
    """Tells the workers of writes, from a thread of its own: a writer neither waits nor fails.

    What is not told, as when no worker is there to hear it, workers find by themselves.
    """

    def __init__(self, url: str, patience: float = 1.0) -> None:
        self._exchange = Exchange(url, patience)
        self._app = sending(url, patience)
        self._nudged = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nudges", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def nudge(self) -> None:
        self._nudged.set()

    def stop(self, timeout: float) -> None:
        self._stopped.set()
        self._nudged.set()
        self._thread.join(timeout)
        self._exchange.close()
        self._app.close()

    def _run(self) -> None:
        while self._nudged.wait() and not self._stopped.is_set():
            self._nudged.clear()
            try:
                self._send()
            except BROKER_ERRORS as error:
                log.debug("a nudge was not sent: %s", type(error).__name__)
                self._stopped.wait(REST_SECONDS)

    def _send(self) -> None:
        if self._exchange.is_present() and self._exchange.claim_nudge():
            self._app.send_task(NUDGE, queue=NUDGE)
