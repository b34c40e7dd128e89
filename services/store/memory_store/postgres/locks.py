"""How a write begins: with the locks of what it decides by."""

import hashlib
from collections.abc import Collection

from memory_store.engine import Shared

WRITING = "19778, 1"
"""The advisory lock that every write holds: shared with others, or alone."""


def begin_writing(locks: Collection[str] | None, *, patient: bool = True) -> list[str]:
    """Returns the statements that begin a write.

    They lock in the order of the numbers, so that no two writes wait for each other, and before
    the transaction has a number: of two writes to a key the later one has the higher number, and
    with it the higher event.
    """
    begin = ["BEGIN"] if patient else ["BEGIN", "SET LOCAL lock_timeout = 1"]
    if locks is None:
        # What is done alone may be done to the whole database.
        alone = f"SELECT pg_advisory_xact_lock({WRITING})"
        return [*begin, "SET LOCAL statement_timeout = 0", alone]
    calls = sorted((_number(lock), _call(lock)) for lock in locks)
    taken = "".join(f", {call}({number})" for number, call in calls)
    return [*begin, f"SELECT pg_advisory_xact_lock_shared({WRITING}){taken}"]


def _call(lock: str) -> str:
    return "pg_advisory_xact_lock_shared" if isinstance(lock, Shared) else "pg_advisory_xact_lock"


def _number(lock: str) -> int:
    digest = hashlib.blake2b(lock.encode(), digest_size=8).digest()
    return int.from_bytes(digest, signed=True)
