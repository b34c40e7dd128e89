"""A Postgres database as the origin or the destination of a move."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, contextmanager

import psycopg

from memory_store.contract import Busy, Invalid
from memory_store.engine import Row
from memory_store.migrations import outstanding
from memory_store.moving import OF_EVERY_SERVER, TABLES, Table, check_version, refuse_unless_empty
from memory_store.postgres.connections import SCHEMA, Connections
from memory_store.postgres.errors import translated
from memory_store.postgres.locks import WRITING
from memory_store.postgres.presence import keep_others_out, let_others_in
from memory_store.postgres.schema import (
    cannot_be_opened,
    check_extension,
    continue_numbering,
    make_ready,
    type_of_embeddings,
    version_of,
)
from memory_store.postgres.session import PostgresSession, Rows, adapt_embeddings
from memory_store.postgres.text import PostgresText

_ORIGIN = (
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;"
    " SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0"
)
_DESTINATION = (
    f"BEGIN; SELECT pg_advisory_xact_lock({WRITING});"
    " SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0;"
    # Workers would share memory of a size that a container mostly does not have.
    " SET LOCAL max_parallel_maintenance_workers = 0"
)
_SEQUENCE = "SELECT pg_get_serial_sequence(:table, :column) AS name"
_GRAPHS = (
    "SELECT indexname AS name, indexdef AS made FROM pg_indexes"
    f" WHERE schemaname = '{SCHEMA}' AND indexname LIKE 'vector_of_model_%'"
)
_TYPES = (
    "SELECT attname AS name, atttypid::int AS type FROM pg_attribute"
    " WHERE attrelid = :table::regclass AND attnum > 0 AND NOT attisdropped"
)


class PostgresOrigin:
    def __init__(self, connection: Rows) -> None:
        self.session = PostgresSession(connection, binary=True)

    def last_number(self, table: Table) -> int:
        sequence = _sequence(self.session, table)
        given = f"pg_sequence_last_value('{sequence}'::regclass)" if sequence else "0"
        row = self.session.one(
            f"SELECT greatest({given}, max({table.key[0]}), 0) AS number FROM {table.name}"
        )
        return int(row["number"]) if row else 0


class PostgresDestination:
    def __init__(self, connection: Rows) -> None:
        self.session = PostgresSession(connection, binary=True)
        self.text = PostgresText()
        self._graphs: list[str] = []
        self._columns: dict[str, dict[str, int]] = {}

    def add(self, table: Table, rows: Sequence[Row]) -> None:
        types = self._types(table)
        names = ", ".join(rows[0])
        statement = f"COPY {table.name} ({names}) FROM STDIN (FORMAT BINARY)".encode()
        with _taking(table.name), self.session.connection.cursor().copy(statement) as copy:
            copy.set_types([types[name] for name in rows[0]])
            for row in rows:
                copy.write_row([*row.values()])
        if table.name == "model":
            self._graphs += self._take_graphs_down()

    def clear(self) -> None:
        """Removes what a server leaves merely by having been started."""
        self._take_graphs_down()
        for table in OF_EVERY_SERVER:
            self.session.run(f"DELETE FROM {table}")

    def complete(self, numbers: Mapping[str, int]) -> None:
        # A graph that is made of vectors which are all there takes a fraction of the time.
        with _taking("vector"):
            for made in self._graphs:
                self.session.run(made)
        continue_numbering(self.session.connection)
        for table in TABLES:
            self._continue_from(table, numbers.get(table.name, 0))
        self.session.run(f"ANALYZE {', '.join(table.name for table in TABLES)}, fact_word")

    def commit(self) -> None:
        self.session.run("COMMIT")

    def _continue_from(self, table: Table, number: int) -> None:
        if sequence := _sequence(self.session, table):
            self.session.one(
                f"SELECT setval('{sequence}', greatest(n, 1), n > 0) FROM"
                f" (SELECT greatest(max({table.key[0]}), :number) AS n FROM {table.name}) AS last",
                number=number,
            )

    def _types(self, table: Table) -> dict[str, int]:
        if table.name not in self._columns:
            rows = self.session.all(_TYPES, table=table.name)
            self._columns[table.name] = {row["name"]: row["type"] for row in rows}
        return self._columns[table.name]

    def _take_graphs_down(self) -> list[str]:
        """Returns the statements that make them again."""
        graphs = self.session.all(_GRAPHS)
        for graph in graphs:
            self.session.run(f"DROP INDEX {graph['name']}")
        return [graph["made"] for graph in graphs]


class PostgresPlace:
    """A database on a server, which need not hold the schema yet."""

    def __init__(self, url: str, patience_ms: int) -> None:
        """Raises `Unavailable` for what is no address."""
        self._connections = Connections(url, patience_ms)

    @property
    def name(self) -> str:
        return f"the database {self._connections.place}"

    @contextmanager
    def origin(self) -> Generator[PostgresOrigin]:
        with self._alone() as connection:
            connection.execute(_ORIGIN.encode())
            check_version("postgres", version_of(connection) or 0, self.name)
            adapt_embeddings(connection, type_of_embeddings(connection))
            yield PostgresOrigin(connection)

    @contextmanager
    def destination(self) -> Generator[PostgresDestination]:
        with self._alone() as connection:
            self._refuse(connection)
            _, vector = make_ready(connection, self._connections)
            adapt_embeddings(connection, vector)
            connection.execute(_DESTINATION.encode())
            destination = PostgresDestination(connection)
            destination.clear()
            yield destination

    def look(self) -> None:
        with self._alone() as connection:
            self._refuse(connection)

    def _refuse(self, connection: Rows) -> None:
        version = version_of(connection)
        if version is None:
            check_extension(connection, self._connections)
            return
        outstanding("postgres", version)
        refuse_unless_empty(PostgresSession(connection), self.name)

    @contextmanager
    def _alone(self) -> Generator[Rows]:
        """Keeps stores out as long as it lasts; what was not committed by then is not kept."""
        try:
            connection = self._connections.connect()
        except psycopg.OperationalError as error:
            raise cannot_be_opened(self._connections, error) from error
        with translated(), closing(connection):
            if not keep_others_out(connection):
                raise Busy(
                    f"{self.name} is open in another process, or was a moment ago; stop its servers"
                    " first"
                )
            try:
                yield connection
            finally:
                let_others_in(connection)


@contextmanager
def _taking(table: str) -> Generator[None]:
    try:
        yield
    except psycopg.DataError as error:
        reason = error.diag.message_primary or error
        raise Invalid(
            f"Postgres does not take a row of {table}: {reason}; nothing was moved"
        ) from error


def _sequence(session: PostgresSession, table: Table) -> str | None:
    row = session.one(_SEQUENCE, table=table.name, column=table.key[0])
    return row["name"] if row else None
