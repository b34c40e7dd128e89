"""What SQLite's errors mean to whoever asked for something."""

import sqlite3

from memory_store.contract import Busy, Internal, StoreError, Unavailable
from memory_store.sqlite.connection import code_of

_FAILED = (Internal, "the store failed; its log says why")
_BUSY = (Busy, "the database is in use by another process; nothing was written, try again")
_DAMAGED = (Internal, "the database file is damaged; restore it from a backup")
_MEANINGS: dict[int, tuple[type[StoreError], str]] = {
    sqlite3.SQLITE_BUSY: _BUSY,
    sqlite3.SQLITE_LOCKED: _BUSY,
    sqlite3.SQLITE_FULL: (
        Unavailable,
        "the disk is full; nothing was written, free some space and try again",
    ),
    sqlite3.SQLITE_READONLY: (Unavailable, "the database is read-only; nothing was written"),
    sqlite3.SQLITE_IOERR: (Unavailable, "the disk reported an error; nothing was written"),
    sqlite3.SQLITE_CANTOPEN: (
        Unavailable,
        "the database cannot be opened; is it a file that may be written?",
    ),
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
}


def translate(error: sqlite3.Error) -> StoreError:
    """The one door through which SQLite's errors leave, as the contract's."""
    kind, message = _MEANINGS.get(code_of(error), _FAILED)
    return kind(message)
