"""A retried write is applied once and answered the same."""

import hashlib
import json
from collections.abc import Callable

from memory_store.contract import Caller, FactOutcome, IdempotencyMismatch, Word
from memory_store.engine import Session
from memory_store.facts import Writing

KEPT_MS = 24 * 3600 * 1000


def locks(caller: Caller, key: str | None) -> tuple[str, ...]:
    """The names of what a write with this key decides by, beside its fact."""
    if key is None:
        return ()
    return (f"idempotency {caller.principal!r} {caller.source_client!r} {key!r}",)


def once(
    writing: Writing, key: str | None, request: Word, apply: Callable[[], FactOutcome]
) -> FactOutcome:
    """Returns the first answer to this key if there was one, else applies and remembers.

    Raises `IdempotencyMismatch` when the key came with another request before.
    """
    if key is None:
        return apply()
    digest = _digest(request)
    if known := _recall(writing, key, digest):
        return known
    outcome = apply()
    writing.session.later(
        "INSERT INTO idempotency (principal, source_client, key, digest, answer, at)"
        " VALUES (:principal, :client, :key, :digest, :answer, :now)"
        " ON CONFLICT (principal, source_client, key) DO UPDATE SET"
        " digest = excluded.digest, answer = excluded.answer, at = excluded.at",
        principal=writing.caller.principal,
        client=writing.caller.source_client,
        key=key,
        digest=digest,
        answer=outcome.model_dump_json(),
        now=writing.now,
    )
    return outcome


def _digest(request: Word) -> str:
    # Sorted: the order of the names in metadata makes no other write.
    content = json.dumps(request.model_dump(mode="json"), sort_keys=True)
    return hashlib.sha256(f"{type(request).__name__} {content}".encode()).hexdigest()


def _recall(writing: Writing, key: str, digest: str) -> FactOutcome | None:
    row = writing.session.one(
        "SELECT digest, answer FROM idempotency WHERE principal = :principal"
        " AND source_client = :client AND key = :key AND at > :since",
        principal=writing.caller.principal,
        client=writing.caller.source_client,
        key=key,
        since=writing.now - KEPT_MS,
    )
    if row is None:
        return None
    if row["digest"] != digest:
        raise IdempotencyMismatch(
            f"idempotency_key {key!r} was used for another write within the last 24 hours; "
            "repeat that write exactly or choose another key",
            argument="idempotency_key",
        )
    return FactOutcome.model_validate_json(row["answer"])


def any_old(session: Session, now: int) -> bool:
    row = session.one(
        "SELECT 1 AS yes FROM idempotency WHERE at <= :since LIMIT 1", since=now - KEPT_MS
    )
    return row is not None


def forget_old(session: Session, now: int) -> int:
    return session.run("DELETE FROM idempotency WHERE at <= :since", since=now - KEPT_MS)
