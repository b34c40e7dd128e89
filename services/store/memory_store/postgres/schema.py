"""Makes a database ready: the extension, the schema, what a restored database needs."""

import psycopg
from psycopg import errors

from memory_store.contract import Busy, Unavailable
from memory_store.migrations import outstanding
from memory_store.postgres.connections import SCHEMA, Connections
from memory_store.postgres.presence import is_being_moved
from memory_store.postgres.session import Rows

OPENING = 0x4D42_7264
"""The advisory lock of those that open the database: one migrates, the others wait."""
OPEN_PATIENCE_SECONDS = 30
OLDEST_VECTOR = (0, 8)
"""The first pgvector that goes on searching when a filter has taken what it found."""
_NO_EXTENSION = (
    "the database {place} has no pgvector; install the extension 'vector' (0.8 or newer) on its"
    " server, and let a user who may do so run CREATE EXTENSION vector"
)


def prepare(connections: Connections) -> tuple[int, int]:
    """Returns the schema's version and the type of embeddings.

    Raises `SchemaTooNew`, `Busy` during a move, and `Unavailable` with a sentence for whoever
    starts the program.
    """
    try:
        with connections.connect() as connection:
            _refuse_while_moving(connection, connections)
            return make_ready(connection, connections)
    except psycopg.OperationalError as error:
        raise cannot_be_opened(connections, error) from error


def make_ready(connection: Rows, connections: Connections) -> tuple[int, int]:
    """As `prepare`, on a connection that is there."""
    try:
        _check_encoding(connection, connections)
        version = _migrate(connection, connections)
        continue_numbering(connection)
        return version, type_of_embeddings(connection)
    except errors.InsufficientPrivilege as error:
        raise Unavailable(
            f"the database {connections.place} cannot be prepared: its user may not create the"
            f" schema {SCHEMA}; GRANT CREATE ON DATABASE lets it"
        ) from error


def cannot_be_opened(connections: Connections, error: psycopg.Error) -> Unavailable:
    """Says what libpq does, without the address that it repeats."""
    said = str(error).strip().splitlines()[0]
    for before in ("FATAL:", "failed: "):
        said = said.rpartition(before)[2]
    reason = connections.hide(said.strip())
    return Unavailable(f"the database {connections.place} cannot be opened: {reason}")


def _refuse_while_moving(connection: Rows, connections: Connections) -> None:
    if is_being_moved(connection):
        raise Busy(f"the database {connections.place} is being moved; start again when it is done")


def _check_encoding(connection: Rows, connections: Connections) -> None:
    row = connection.execute("SHOW server_encoding").fetchone()
    if row is None or row["server_encoding"] != "UTF8":
        raise Unavailable(
            f"the database {connections.place} does not keep text as UTF-8;"
            " make one with ENCODING 'UTF8'"
        )


def _migrate(connection: Rows, connections: Connections) -> int:
    version = version_of(connection)
    if version is not None and not outstanding("postgres", version):
        return version
    with connection.transaction():
        connection.execute("SET LOCAL statement_timeout = 0")
        connection.execute(f"SET LOCAL lock_timeout = '{OPEN_PATIENCE_SECONDS}s'".encode())
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [OPENING])
        _ensure_vector(connection, connections)
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}".encode())
        connection.execute("CREATE TABLE IF NOT EXISTS schema_version (number INTEGER PRIMARY KEY)")
        for migration in outstanding("postgres", version_of(connection) or 0):
            connection.execute(migration.sql.encode())
            connection.execute("INSERT INTO schema_version VALUES (%s)", [migration.number])
    return version_of(connection) or 0


def version_of(connection: Rows) -> int | None:
    row = connection.execute(
        "SELECT to_regclass(%s) IS NOT NULL AS there", [f"{SCHEMA}.schema_version"]
    ).fetchone()
    if row is None or not row["there"]:
        return None
    row = connection.execute("SELECT max(number) AS number FROM schema_version").fetchone()
    return row["number"] if row else None


def check_extension(connection: Rows, connections: Connections) -> None:
    """Raises `Unavailable` where there is none to be made."""
    found = connection.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'")
    if found.fetchone() is None:
        raise Unavailable(_NO_EXTENSION.format(place=connections.place))


def _ensure_vector(connection: Rows, connections: Connections) -> None:
    try:
        with connection.transaction():
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
    except (errors.FeatureNotSupported, errors.UndefinedFile, errors.InsufficientPrivilege):
        raise Unavailable(_NO_EXTENSION.format(place=connections.place)) from None
    row = connection.execute(
        "SELECT extversion AS version FROM pg_extension WHERE extname = 'vector'"
    ).fetchone()
    version = row["version"] if row else "0"
    if tuple(map(int, version.split(".")[:2])) < OLDEST_VECTOR:
        raise Unavailable(
            f"the database {connections.place} has pgvector {version}; 0.8 or newer is needed:"
            " install it and run ALTER EXTENSION vector UPDATE"
        )


def type_of_embeddings(connection: Rows) -> int:
    # Not by its name, which the table's rows have too.
    row = connection.execute(
        "SELECT t.oid FROM pg_type t JOIN pg_extension e ON e.extnamespace = t.typnamespace"
        " WHERE e.extname = 'vector' AND t.typname = 'vector'"
    ).fetchone()
    return row["oid"] if row else 0


def continue_numbering(connection: Rows) -> None:
    """Has the next events numbered beyond those that came from another server.

    Event numbers are made from transaction numbers, which begin anew on a new server.
    """
    connection.execute(
        "UPDATE event_numbering SET base = (SELECT max(id) + 1 FROM event)"
        " WHERE (SELECT max(id) FROM event)"
        " >= event_floor(pg_snapshot_xmax(pg_current_snapshot()))"
    )
