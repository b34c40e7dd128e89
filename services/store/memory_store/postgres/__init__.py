"""The Postgres engine."""

from memory_store.postgres.engine import PostgresEngine
from memory_store.postgres.moving import PostgresPlace

__all__ = ["PostgresEngine", "PostgresPlace"]
