"""Opens the store that the settings name."""

from collections.abc import Generator
from contextlib import contextmanager

from memory_store.contract import Unavailable
from memory_store.engine import Engine
from memory_store.limits import Limits
from memory_store.migrations import SchemaTooNew
from memory_store.moving import Place
from memory_store.reindex import ensure_words
from memory_store.settings import StoreSettings
from memory_store.sqlite import NotOurs, SqliteEngine, SqlitePlace
from memory_store.store import SqlStore

__all__ = ["NotOurs", "SchemaTooNew", "limits_of", "open_engine", "open_store", "place_of"]


def open_engine(settings: StoreSettings) -> Engine:
    """Creates or upgrades the database if need be. Close what it returns.

    Raises `NotOurs` for a file that is something else, `SchemaTooNew` for a database that a newer
    version wrote, and `StoreError` for one that cannot be opened.
    """
    engine = _engine(settings)
    ensure_words(engine)
    return engine


def _engine(settings: StoreSettings) -> Engine:
    if settings.database_url is None:
        return SqliteEngine(settings.database_path, settings.sqlite_busy_timeout)
    with _driver():
        from memory_store.postgres import PostgresEngine  # noqa: PLC0415 - an extra of its own
    return PostgresEngine(settings.database_url.get_secret_value(), settings.sqlite_busy_timeout)


def place_of(settings: StoreSettings) -> Place:
    """Returns where the settings say that the memory is, to move it from or to there.

    Raises `Unavailable` for an address that is not understood.
    """
    if settings.database_url is None:
        return SqlitePlace(settings.database_path)
    with _driver():
        from memory_store.postgres import PostgresPlace  # noqa: PLC0415 - an extra of its own
    return PostgresPlace(settings.database_url.get_secret_value(), settings.sqlite_busy_timeout)


@contextmanager
def _driver() -> Generator[None]:
    try:
        yield
    except ImportError as error:
        raise Unavailable(
            "Postgres needs its driver: pip install 'mcp-memory-bridge[postgres]'"
        ) from error


def open_store(settings: StoreSettings) -> SqlStore:
    """As `open_engine`, with the store on it."""
    return SqlStore(
        open_engine(settings), allowed=limits_of(settings), log_reads=settings.log_reads
    )


def limits_of(settings: StoreSettings) -> Limits:
    return Limits(key=settings.max_key_len, value=settings.max_value_len)
