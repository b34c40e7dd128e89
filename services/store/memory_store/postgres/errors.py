"""What Postgres's errors mean, and the one door through which they leave."""

import contextlib
from collections.abc import Generator

import psycopg
from psycopg import errors
from psycopg_pool import PoolClosed, PoolTimeout

from memory_store.contract import Busy, Internal, Invalid, StoreError, Unavailable

Meaning = tuple[type[StoreError], str]

IN_THE_WAY = (errors.DeadlockDetected, errors.SerializationFailure)
"""What a transaction is told that got into another one's way; nothing of it was kept."""

_LOST = (
    Unavailable,
    "the connection to the database was lost; whether a write landed is unknown, try again",
)
_FAILED = (Internal, "the store failed; its log says why")
_MEANINGS: list[tuple[type[psycopg.Error] | tuple[type[psycopg.Error], ...], Meaning]] = [
    (
        (errors.LockNotAvailable, *IN_THE_WAY),
        (Busy, "the database is in use by another process; nothing was written, try again"),
    ),
    (
        errors.QueryCanceled,
        (Unavailable, "the database took too long; nothing was written, try again"),
    ),
    (
        errors.DiskFull,
        (Unavailable, "the database's disk is full; nothing was written, free some space"),
    ),
    (
        (errors.ReadOnlySqlTransaction, errors.InsufficientPrivilege),
        (Unavailable, "the database may not be written by this user; nothing was written"),
    ),
    (
        errors.ProgramLimitExceeded,
        (Invalid, "the key or a tag is too long for Postgres, which takes about 2,700 bytes"),
    ),
    (
        (errors.DataCorrupted, errors.IndexCorrupted),
        (Internal, "the database is damaged; restore it from a backup"),
    ),
    (PoolClosed, (Unavailable, "the store is closed")),
    (PoolTimeout, (Unavailable, "the database cannot be reached; try again")),
    ((psycopg.OperationalError, errors.AdminShutdown), _LOST),
]


def translate(error: psycopg.Error) -> StoreError:
    for kinds, (kind, message) in _MEANINGS:
        if isinstance(error, kinds):
            return kind(message)
    kind, message = _FAILED
    return kind(message)


@contextlib.contextmanager
def translated() -> Generator[None]:
    try:
        yield
    except psycopg.Error as error:
        raise translate(error) from error
