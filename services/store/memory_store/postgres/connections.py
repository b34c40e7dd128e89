"""Connections as this product wants them, and the pool of them."""

from typing import Any

import psycopg
from psycopg import conninfo
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool

from memory_store.contract import Unavailable
from memory_store.postgres.presence import announce
from memory_store.postgres.session import Rows, adapt_embeddings

SCHEMA = "memory_bridge"
"""Tables have a schema of their own: a database may serve other programs too."""
MOST = 16
"""Connections that read and write; Postgres allows 100 in all unless told otherwise."""
KEPT = 1
CONNECT_SECONDS = 5
STATEMENT_MS = 60_000
DEAD_PEER_MS = 15_000
CANDIDATES_LOOKED_AT = 200
"""Neighbours that HNSW keeps in sight: with 200, 99 of 100 of the nearest are found."""


class Connections:
    """Opens connections to one database."""

    def __init__(self, url: str, patience_ms: int) -> None:
        """Raises `Unavailable` for what is no address."""
        try:
            self._address: dict[str, Any] = conninfo.conninfo_to_dict(
                url, connect_timeout=CONNECT_SECONDS, tcp_user_timeout=DEAD_PEER_MS
            )
        except psycopg.Error:
            raise Unavailable(
                "the database's address is not understood;"
                " write it as postgresql://user:password@host:5432/database"
            ) from None
        # 0 would switch the timeout off; what is meant is to fail at once.
        self._lock_ms = max(patience_ms, 1)

    @property
    def place(self) -> str:
        """Where the database is, for people."""
        host = self._address.get("host", "this machine")
        return f"{self._address.get('dbname', 'the database')!r} on {host}"

    def hide(self, text: str) -> str:
        """The text without the password, should it be in it."""
        password = self._address.get("password")
        return text.replace(password, "…") if password else text

    def connect(self) -> Rows:
        connection = Rows.connect(**self._address, autocommit=True, row_factory=dict_row)
        self._configure(connection)
        return connection

    def pool(self, vector: int, wait_seconds: float) -> ConnectionPool[Rows]:
        def configure(connection: Rows) -> None:
            self._configure(connection)
            announce(connection)
            adapt_embeddings(connection, vector)

        return ConnectionPool(
            kwargs={**self._address, "autocommit": True, "row_factory": dict_row},
            min_size=KEPT,
            max_size=MOST,
            timeout=wait_seconds,
            configure=configure,
            name="memory-store",
            open=True,
        )

    def _configure(self, connection: Rows) -> None:
        # The user's own path stays behind: the vector extension may live in any schema of it.
        connection.execute(
            "SELECT set_config('search_path', %s || current_setting('search_path'), false),"
            " set_config('lock_timeout', %s, false), set_config('statement_timeout', %s, false),"
            " set_config('synchronous_commit', 'on', false), set_config('jit', 'off', false),"
            " set_config('hnsw.ef_search', %s, false),"
            " set_config('hnsw.iterative_scan', 'relaxed_order', false)",
            [
                f"{SCHEMA}, ",
                str(self._lock_ms),
                str(STATEMENT_MS),
                str(CANDIDATES_LOOKED_AT),
            ],
        )
