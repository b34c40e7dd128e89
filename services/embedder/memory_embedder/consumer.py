"""What a worker does with what comes from the queues, and how it says that it is there."""

import importlib
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from memory_embedder.broker import NUDGE, QUERY, working
from memory_embedder.contract import EmbedderUnavailable, QueryEmbedder
from memory_embedder.exchange import BEAT_SECONDS, QUEUE_ERRORS, Answer, Exchange

bootsteps: Any = importlib.import_module("celery.bootsteps")  # neither has types
signals: Any = importlib.import_module("celery.signals")

log = logging.getLogger(__name__)


def consume(
    url: str,
    exchange: Exchange,
    queries: QueryEmbedder,
    nudge: Callable[[], None],
    beat_file: Path | None = None,
) -> None:
    """Takes from the queues until a signal ends it, and renews the file's time while it does.

    No task is ever long, since `nudge` only wakes the thread that embeds what was written: so one
    thread serves both queues, and a query waits for no more than the queries before it.
    """
    app = working(url)

    @app.task(name=QUERY)
    def _(query: str) -> None:
        _answer(exchange, queries, query)

    @app.task(name=NUDGE)
    def _() -> None:
        # The way is clear before the work begins, so that what is written from now on is told.
        exchange.clear_nudge()
        nudge()

    signals.setup_logging.connect(_leave_logging_alone)
    app.steps["consumer"].add(_beating(partial(_beat, exchange, beat_file)))
    app.Worker(
        pool="solo",
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        quiet=True,
    ).start()


def _leave_logging_alone(**_: Any) -> None: ...


def _answer(exchange: Exchange, queries: QueryEmbedder, query: str) -> None:
    text = exchange.take(query)
    if text is not None:
        exchange.answer(query, _embed(queries, text))


def _embed(queries: QueryEmbedder, text: str) -> Answer:
    try:
        embedded = queries.query(text)
    except EmbedderUnavailable as unavailable:
        return Answer(refusal=str(unavailable))
    return Answer(vector=embedded.vector, model=embedded.model)


def _beat(exchange: Exchange, file: Path | None) -> None:
    try:
        exchange.beat()
    except QUEUE_ERRORS as error:
        log.debug("no beat: %s", type(error).__name__)
        return
    if file:
        _touch(file)


def _touch(file: Path) -> None:
    try:
        file.touch()
    except OSError as error:
        log.warning("the file that MCP_BEAT_FILE names cannot be written: %s", error.strerror)


def _beating(beat: Callable[[], None]) -> type:
    """A step of Celery's that beats on the very loop that takes tasks, and only while it does."""

    class Beating(bootsteps.StartStopStep):
        requires = ("celery.worker.consumer:Tasks",)

        def start(self, parent: Any) -> None:
            beat()
            log.info("connected to the queues")
            parent.timer.call_repeatedly(BEAT_SECONDS, beat)

    return Beating
