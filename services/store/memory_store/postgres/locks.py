"""How a write begins: with the locks of what it decides by."""

import hashlib
from collections.abc import Collection

WRITING = "19778, 1"
"""The advisory lock that every write holds: shared with others, or alone."""


def begin_writing(locks: Collection[str] | None, *, patient: bool = True) -> str:
    """Locks in the order of their numbers, so that no two writes wait for each other.

    They come before the transaction has a number: of two writes to a key the later one has the
    higher number, and with it the higher event.
    """
    begin = "BEGIN" if patient else "BEGIN; SET LOCAL lock_timeout = 1"
    if locks is None:
        # What is done alone may be done to the whole database.
        return f"{begin}; SET LOCAL statement_timeout = 0; SELECT pg_advisory_xact_lock({WRITING})"
    numbers = sorted(_number(lock) for lock in locks)
    taken = "".join(f", pg_advisory_xact_lock({number})" for number in numbers)
    return f"{begin}; SELECT pg_advisory_xact_lock_shared({WRITING}){taken}"


def _number(lock: str) -> int:
    digest = hashlib.blake2b(lock.encode(), digest_size=8).digest()
    return int.from_bytes(digest, signed=True)
