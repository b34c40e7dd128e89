"""Connections as this product wants them, and what their errors are about."""

import sqlite3
from pathlib import Path
from typing import Any, cast

from memory_store.engine import Row

WAL_KEPT_BYTES = 64 * 1024 * 1024
OPEN_PATIENCE_SECONDS = 30.0
"""Opening waits longer than a write: another process may be migrating the schema."""


def code_of(error: sqlite3.Error) -> int:
    """Returns SQLite's primary result code; 0 for an error of the Python module's own."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def is_busy(error: sqlite3.Error) -> bool:
    return code_of(error) in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def dict_row(cursor: sqlite3.Cursor, values: tuple[Any, ...]) -> Row:
    return {column[0]: value for column, value in zip(cursor.description, values, strict=True)}


class SqliteSession:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def all(self, sql: str, /, **parameters: object) -> list[Row]:
        return self.connection.execute(sql, parameters).fetchall()

    def one(self, sql: str, /, **parameters: object) -> Row | None:
        return cast("Row | None", self.connection.execute(sql, parameters).fetchone())

    def run(self, sql: str, /, **parameters: object) -> int:
        return self.connection.execute(sql, parameters).rowcount

    def later(self, sql: str, /, **parameters: object) -> None:
        self.connection.execute(sql, parameters)


def connect(path: Path, patience_seconds: float = 5.0) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=patience_seconds, isolation_level=None, check_same_thread=False
    )
    connection.row_factory = dict_row
    connection.execute("PRAGMA foreign_keys = ON")
    # FULL: an answered write survives power loss; group commit pays for it (WAL alone would
    # lose the last commits).
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA journal_size_limit = {WAL_KEPT_BYTES}")
    return connection
