"""The worker that embeds for gateways elsewhere: `python -m memory_embedder.main [--check]`."""

import argparse
import logging
import os
import secrets
import socket
import sys
from collections.abc import Sequence
from contextlib import closing

from memory_embedder import settings
from memory_embedder.client import LocalQueryEmbedder
from memory_embedder.consumer import consume
from memory_embedder.contract import Embedder
from memory_embedder.exchange import QUEUE_ERRORS, Exchange
from memory_embedder.opening import open_embedder
from memory_embedder.settings import EmbedderSettings
from memory_embedder.worker import DrainThread
from memory_store.client import HttpStore
from memory_store.contract import Store
from memory_store.settings import ClientSettings, SettingsError
from memory_store.settings import read as read_store

PATIENCE_SECONDS = 2.0
STOPPING_SECONDS = 10.0
BAD_SETTING = 2
NOT_AT_WORK = 1
NO_REDIS = "A worker takes its work from Redis: set MCP_REDIS_URL, or MCP_REDIS_URL_FILE."
NO_STORE = "A worker needs the store whose facts it embeds: set MCP_STORE_URL and its secret."
OFF = "Embeddings are switched off (MCP_EMBEDDINGS), so there is nothing for a worker to do."


def main(arguments: Sequence[str] | None = None) -> int:
    """Works until a signal comes, or checks; returns the exit code.

    2 stands for a bad setting; for the check, 0 says that this machine's worker takes work and
    1 that it does not.
    """
    parser = argparse.ArgumentParser(
        prog="python -m memory_embedder.main", description="Embed what is written, and queries."
    )
    parser.add_argument(
        "--check", action="store_true", help="say whether this machine's worker takes work"
    )
    checks: bool = parser.parse_args(arguments).check
    try:
        url = _redis_url()
        return _check(url) if checks else _work(url, settings.read(), read_store(ClientSettings))
    except (settings.BadSetting, SettingsError) as error:
        sys.stderr.write(f"{error}\n")
        return BAD_SETTING


def _redis_url() -> str:
    url = settings.read_redis().url
    if url is None:
        raise settings.BadSetting(NO_REDIS)
    return url.get_secret_value()


def _check(url: str) -> int:
    with closing(Exchange(url, PATIENCE_SECONDS)) as exchange:
        try:
            works = exchange.is_present(socket.gethostname())
        except QUEUE_ERRORS:
            works = False
    return 0 if works else NOT_AT_WORK


def _work(url: str, embedding: EmbedderSettings, address: ClientSettings) -> int:
    if not embedding.embeddings:
        raise settings.BadSetting(OFF)
    if address.url is None:
        raise settings.BadSetting(NO_STORE)
    _start_logging()
    store = HttpStore(address.url, address.secret.get_secret_value())  # pyright: ignore[reportAbstractUsage]  its methods are drawn from the contract
    with closing(store):
        work(url, store, open_embedder(embedding), embedding.query_deadline_ms / 1000)
    return 0


def _start_logging() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    for talkative in ("celery", "httpx2"):
        logging.getLogger(talkative).setLevel(logging.WARNING)


def work(url: str, store: Store, embedder: Embedder, deadline_seconds: float) -> None:
    """Embeds what is written and what is asked, with one model for both, until a signal comes."""
    name = socket.gethostname()
    owner = f"{name}:{os.getpid()}:{secrets.token_hex(4)}"
    drain = DrainThread(store, embedder, owner, preload=True)
    with (
        closing(Exchange(url, PATIENCE_SECONDS)) as exchange,
        closing(LocalQueryEmbedder(embedder, deadline_seconds)) as queries,
    ):
        drain.start()
        try:
            consume(url, exchange, queries, drain.nudge, name)
        finally:
            drain.stop(STOPPING_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
