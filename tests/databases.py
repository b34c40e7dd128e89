"""Databases of both engines for tests that are about either."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.store_process import Database
from memory_store.opening import open_engine
from memory_store.settings import StoreSettings
from memory_store.store import SqlStore

ENGINES = ("sqlite", "postgres")


def opened_store(database: Database, **options: Any) -> SqlStore:
    place = {"database_url" if isinstance(database, str) else "memory_db": database}
    engine = open_engine(StoreSettings.model_validate(place))
    return SqlStore(engine, log_reads=False, **options)


@contextmanager
def new_database(engine: str, folder: Path) -> Iterator[Database]:
    if engine == "sqlite":
        yield folder / "memory.db"
        return
    # Not before it is needed: with it a server starts.
    from postgres_server import new_database as on_the_server  # noqa: PLC0415

    with on_the_server() as address:
        yield address
