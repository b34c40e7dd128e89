"""The SQLite engine."""

from memory_store.sqlite.engine import SqliteEngine
from memory_store.sqlite.file import NotOurs
from memory_store.sqlite.moving import SqlitePlace

__all__ = ["NotOurs", "SqliteEngine", "SqlitePlace"]
