"""The worker that embeds for gateways elsewhere: `python -m memory_embedder.main`."""

import logging
import os
import secrets
import socket
import sys
from contextlib import closing
from pathlib import Path

from memory_embedder import settings
from memory_embedder.client import LocalQueryEmbedder
from memory_embedder.consumer import consume
from memory_embedder.contract import Embedder
from memory_embedder.exchange import Exchange
from memory_embedder.opening import open_embedder
from memory_embedder.settings import EmbedderSettings, WorkerSettings
from memory_embedder.worker import DrainThread
from memory_store.client import HttpStore
from memory_store.contract import Store
from memory_store.settings import ClientSettings, SettingsError
from memory_store.settings import read as read_store

PATIENCE_SECONDS = 2.0
STOPPING_SECONDS = 10.0
TALKATIVE = ("amqp", "celery", "httpcore2", "httpx2", "kombu")
BAD_SETTING = 2
NO_REDIS = "A worker takes its work from Redis: set MCP_REDIS_URL, or MCP_REDIS_URL_FILE."
NO_STORE = "A worker needs the store whose facts it embeds: set MCP_STORE_URL and its secret."
OFF = "Embeddings are switched off (MCP_EMBEDDINGS), so there is nothing for a worker to do."


def main() -> int:
    """Works until a signal comes; returns the exit code, where 2 stands for a bad setting."""
    try:
        url, own = _redis_url(), settings.read_worker()
        return _work(url, own, settings.read(), read_store(ClientSettings))
    except (settings.BadSetting, SettingsError) as error:
        sys.stderr.write(f"{error}\n")
        return BAD_SETTING


def _redis_url() -> str:
    url = settings.read_redis().url
    if url is None:
        raise settings.BadSetting(NO_REDIS)
    return url.get_secret_value()


def _work(
    url: str, own: WorkerSettings, embedding: EmbedderSettings, address: ClientSettings
) -> int:
    if not embedding.embeddings:
        raise settings.BadSetting(OFF)
    if address.url is None:
        raise settings.BadSetting(NO_STORE)
    _start_logging(own.log_level)
    store = HttpStore(address.url, address.secret.get_secret_value())  # pyright: ignore[reportAbstractUsage]  its methods are drawn from the contract
    with closing(store):
        deadline = embedding.query_deadline_ms / 1000
        work(url, store, open_embedder(embedding), deadline, own.beat_file)
    return 0


def _start_logging(level: str) -> None:
    form = "%(asctime)s %(levelname)s %(name)s %(message)s"
    logging.basicConfig(level=level.upper(), format=form)
    for talkative in TALKATIVE:
        logging.getLogger(talkative).setLevel(logging.WARNING)


def work(
    url: str,
    store: Store,
    embedder: Embedder,
    deadline_seconds: float,
    beat_file: Path | None = None,
) -> None:
    """Embeds what is written and what is asked, with one model for both, until a signal comes."""
    owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
    drain = DrainThread(store, embedder, owner, preload=True)
    with (
        closing(Exchange(url, PATIENCE_SECONDS)) as exchange,
        closing(LocalQueryEmbedder(embedder, deadline_seconds)) as queries,
    ):
        drain.start()
        try:
            consume(url, exchange, queries, drain.nudge, beat_file)
        finally:
            drain.stop(STOPPING_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
