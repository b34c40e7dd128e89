"""The Postgres engine."""

from memory_store.postgres.engine import PostgresEngine

__all__ = ["PostgresEngine"]
