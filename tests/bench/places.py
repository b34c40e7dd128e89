"""Where the store is measured: a SQLite file, or a Postgres server that keeps what it commits."""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol, Self

import psutil
from served import MB, new_database
from store_process import Database

TESTS = Path(__file__).resolve().parents[1]
DURABLE = ("fsync=on", "full_page_writes=on", "shared_buffers=128MB")


class Place(Protocol):
    """`has_targets` says whether the figures to reach are for this one."""

    name: str
    has_targets: bool

    def new(self) -> AbstractContextManager[Database]:
        """An empty database."""
        ...

    def memory(self) -> float | None:
        """The megabytes that a server of its own takes."""
        ...


class Sqlite:
    name = "SQLite"
    has_targets = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def new(self) -> AbstractContextManager[Database]:
        return new_database()

    def memory(self) -> float | None:
        return None


class Postgres:
    """The tests' own server, but for what makes it forget with the power."""

    name = "Postgres"
    has_targets = False

    def __enter__(self) -> Self:
        sys.path.append(str(TESTS))
        from postgres_server import PostgresServer  # noqa: PLC0415 - the tests' own, found just now

        self._server = PostgresServer(*DURABLE)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.remove()

    @contextmanager
    def new(self) -> Iterator[Database]:
        address = self._server.new_database()
        yield address
        self._server.drop(address)

    def memory(self) -> float | None:
        process = psutil.Process(self._server.pid)
        family = [process, *process.children(recursive=True)]
        return sum(each.memory_full_info().pss for each in family) / MB
