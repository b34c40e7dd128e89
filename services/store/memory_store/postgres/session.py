"""A transaction on Postgres that takes the SQL which all databases share."""

import contextlib
import re
import struct
from collections.abc import Generator, Iterable, Sequence
from functools import lru_cache
from typing import Any

import psycopg
from psycopg import Connection, Cursor, errors, pq
from psycopg.abc import Buffer
from psycopg.adapt import Dumper, Loader

from memory_store.engine import Embedding, Question, Row

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
    """Rows come in `binary` form where a float32 must not lose its last bit on the way."""

    def __init__(self, connection: Rows, *, binary: bool = False) -> None:
        self.connection = connection
        self._binary = binary
        self._answers: dict[tuple[object, ...], Cursor[dict[str, Any]]] = {}

    @contextlib.contextmanager
    def in_one_go(self) -> Generator[None]:
        """Waits only for what is asked, and at the end; what failed is raised then, if not before.

        Within another one it waits at its end too.
        """
        try:
            with self.connection.pipeline():
                yield
        except errors.PipelineAborted as aborted:
            # What was sent after a failure is told so, and must not hide it.
            cause = aborted.__context__
            raise cause if isinstance(cause, psycopg.Error) else aborted from None

    def begin(self, statements: Iterable[str], ahead: Sequence[Question] = ()) -> None:
        """Sends it all in one go; each of the questions is answered to the first who asks it."""
        with self.in_one_go():
            for statement in statements:
                self.later(statement)
            self._answers = {
                _key(asked.sql, asked.parameters): self._execute(asked.sql, asked.parameters)
                for asked in ahead
            }

    def forget_answers(self) -> None:
        self._answers = {}

    def all(self, sql: str, /, **parameters: object) -> list[Row]:
        return [*self._execute(sql, parameters)]

    def one(self, sql: str, /, **parameters: object) -> Row | None:
        known = self._answers.pop(_key(sql, parameters), None) if self._answers else None
        return (known or self._execute(sql, parameters)).fetchone()

    def run(self, sql: str, /, **parameters: object) -> int:
        with self.in_one_go():
            cursor = self._execute(sql, parameters)
        return cursor.rowcount

    def later(self, sql: str, /, **parameters: object) -> None:
        self._execute(sql, parameters)

    def _execute(self, sql: str, parameters: dict[str, object]) -> Cursor[dict[str, Any]]:
        return self.connection.execute(translate(sql), parameters, binary=self._binary)


def _key(sql: str, parameters: dict[str, object]) -> tuple[object, ...]:
    return (sql, *parameters.items())


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


class _ExactEmbeddingLoader(Loader):
    format = pq.Format.BINARY

    def load(self, data: Buffer) -> bytes:
        numbers = bytes(data)[4:]
        dimension = len(numbers) // FLOAT_BYTES
        return struct.pack(f"<{dimension}f", *struct.unpack(f">{dimension}f", numbers))


def adapt_embeddings(connection: Rows, vector: int) -> None:
    """Has embeddings go in and come out as bytes, as in every database; `vector` is their type."""
    dumper = type("EmbeddingDumper", (_EmbeddingDumper,), {"oid": vector})
    connection.adapters.register_dumper(Embedding, dumper)
    connection.adapters.register_loader(vector, _EmbeddingLoader)
    connection.adapters.register_loader(vector, _ExactEmbeddingLoader)
