"""A transaction on Postgres that takes the SQL which all databases share."""

import re
import struct
from functools import lru_cache
from typing import Any

from psycopg import Connection, Cursor, pq
from psycopg.abc import Buffer
from psycopg.adapt import Dumper, Loader

from memory_store.engine import Embedding, Row

Rows = Connection[dict[str, Any]]

_NAMED = re.compile(r"'[^']*'|::|:([a-z]\w*)|%", re.IGNORECASE)
FLOAT_BYTES = 4


@lru_cache(1024)
def translate(sql: str) -> bytes:
    """Writes `:name` as psycopg does, outside of quotes, and `%` so that it stays one."""
    return _NAMED.sub(_written, sql).encode()


def _written(match: re.Match[str]) -> str:
    return f"%({match[1]})s" if match[1] else match[0].replace("%", "%%")


class PostgresSession:
    def __init__(self, connection: Rows) -> None:
        self.connection = connection

    def all(self, sql: str, /, **parameters: object) -> list[Row]:
        return [*self._execute(sql, parameters)]

    def one(self, sql: str, /, **parameters: object) -> Row | None:
        return self._execute(sql, parameters).fetchone()

    def run(self, sql: str, /, **parameters: object) -> int:
        return self._execute(sql, parameters).rowcount

    def _execute(self, sql: str, parameters: dict[str, object]) -> Cursor[dict[str, Any]]:
        return self.connection.execute(translate(sql), parameters)


class _EmbeddingDumper(Dumper):
    """pgvector's binary form: the dimension, two bytes of nothing, big-endian float32."""

    format = pq.Format.BINARY

    def dump(self, obj: Any) -> Buffer:
        dimension = len(obj) // FLOAT_BYTES
        return struct.pack(f">HH{dimension}f", dimension, 0, *struct.unpack(f"<{dimension}f", obj))


class _EmbeddingLoader(Loader):
    def load(self, data: Buffer) -> bytes:
        numbers = [float(number) for number in bytes(data)[1:-1].split(b",")]
        return struct.pack(f"<{len(numbers)}f", *numbers)


def adapt_embeddings(connection: Rows, vector: int) -> None:
    """Has embeddings go in and come out as bytes, as in every database; `vector` is their type."""
    dumper = type("EmbeddingDumper", (_EmbeddingDumper,), {"oid": vector})
    connection.adapters.register_dumper(Embedding, dumper)
    connection.adapters.register_loader(vector, _EmbeddingLoader)
