"""The SQLite engine."""

from memory_store.sqlite.engine import SqliteEngine
from memory_store.sqlite.file import NotOurs

__all__ = ["NotOurs", "SqliteEngine"]
