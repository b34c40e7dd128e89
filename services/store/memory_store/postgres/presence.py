"""Who has the database open: every connection of a store says so, and a move wants to be alone."""

import contextlib

import psycopg
from psycopg import errors

from memory_store.postgres.session import Rows

LOCK = "19778, 2"
LEAVING_MS = 1000
"""How long a connection that was closed may take to be gone at the server too."""


def announce(connection: Rows) -> None:
    """Says for as long as the connection lasts that a store is there; waits for the end of a move.

    Raises `LockNotAvailable` when that takes longer than a write may wait.
    """
    connection.execute(f"SELECT pg_advisory_lock_shared({LOCK})".encode())


def is_being_moved(connection: Rows) -> bool:
    question = f"SELECT pg_try_advisory_lock_shared({LOCK}) AS free"
    row = connection.execute(question.encode()).fetchone()
    return row is None or not row["free"]


def keep_others_out(connection: Rows) -> bool:
    """Returns whether no store is there. None will be then until `let_others_in`."""
    try:
        with connection.transaction():
            connection.execute(f"SET LOCAL lock_timeout = {LEAVING_MS}".encode())
            connection.execute(f"SELECT pg_advisory_lock({LOCK})".encode())
    except errors.LockNotAvailable:
        return False
    return True


def let_others_in(connection: Rows) -> None:
    """Undoes what is not committed. At once, where a mere end of the connection takes a moment."""
    with contextlib.suppress(psycopg.Error):
        connection.rollback()
        connection.execute("SELECT pg_advisory_unlock_all()")
