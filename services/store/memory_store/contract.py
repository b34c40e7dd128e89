"""What a store promises, and with it the words and the errors: all that others may know of it."""

from collections.abc import Sequence
from typing import Protocol

from memory_store.errors import (
    ERRORS,
    Busy,
    Conflict,
    Forbidden,
    IdempotencyMismatch,
    Internal,
    Invalid,
    NotFound,
    StoreError,
    Unavailable,
    error_from,
    fact_of,
)
from memory_store.vocabulary import (
    ALL_EVENTS,
    DEFAULT_NAMESPACE,
    READ_KINDS,
    UNSEEN,
    Backlog,
    Caller,
    Change,
    Event,
    EventFeed,
    EventFilter,
    EventKind,
    EventPage,
    Fact,
    FactOutcome,
    FactPage,
    FactWrite,
    IndexState,
    ModelIdentity,
    Moment,
    NamespaceInfo,
    NewToken,
    Problem,
    SearchHit,
    SearchMode,
    SearchQuery,
    SearchResult,
    Stats,
    SubjectVectors,
    Token,
    TokenGrant,
    TokenScope,
    Word,
    iso,
    to_milliseconds,
)

__all__ = [
    "ALL_EVENTS",
    "DEFAULT_NAMESPACE",
    "ERRORS",
    "READ_KINDS",
    "UNSEEN",
    "Backlog",
    "Busy",
    "Caller",
    "Change",
    "Conflict",
    "Event",
    "EventFeed",
    "EventFilter",
    "EventKind",
    "EventPage",
    "Fact",
    "FactOutcome",
    "FactPage",
    "FactWrite",
    "Forbidden",
    "IdempotencyMismatch",
    "IndexState",
    "Internal",
    "Invalid",
    "ModelIdentity",
    "Moment",
    "NamespaceInfo",
    "NewToken",
    "NotFound",
    "Problem",
    "SearchHit",
    "SearchMode",
    "SearchQuery",
    "SearchResult",
    "Stats",
    "Store",
    "StoreError",
    "SubjectVectors",
    "Token",
    "TokenGrant",
    "TokenScope",
    "Unavailable",
    "Word",
    "error_from",
    "fact_of",
    "iso",
    "to_milliseconds",
]


class Store(Protocol):
    """One memory. Every method may be called from any thread and blocks until it is done.

    A method that writes returns after the write is durable. Every method may raise `Invalid`,
    `Unavailable` and `Internal`, and every writing one `Busy`; only further errors are listed.
    Expired facts are absent for every method.
    """

    def fact_set(self, caller: Caller, write: FactWrite) -> Fact:
        """Stores a value as the key's next version and returns the fact.

        Versions count 1, 2, 3 … for each key and go on counting after a deletion.
        A repeated `idempotency_key` of the same principal and client within 24 hours gives the
        first answer again without writing. Raises `Conflict` (and leaves a `conflict` event) when
        the condition does not hold, `IdempotencyMismatch` when the key came with another write.
        """
        ...

    def fact_set_many(self, caller: Caller, writes: Sequence[FactWrite]) -> list[FactOutcome]:
        """Stores up to 100 writes, each on its own; returns one outcome each, in order."""
        ...

    def fact_get(
        self, caller: Caller, namespace: str, key: str, at: int | Moment | None = None
    ) -> Fact | None:
        """Returns the fact, or None if the key is absent.

        `at` asks for a version (a number) or for what was there at a time. An older version
        is returned as it was written, whatever became of the key since.
        """
        ...

    def fact_get_many(
        self, caller: Caller, namespace: str, keys: Sequence[str]
    ) -> list[Fact | None]:
        """Returns up to 100 facts in the order of their keys, None where absent."""
        ...

    def fact_list(
        self,
        caller: Caller,
        namespace: str,
        prefix: str = "",
        tags: Sequence[str] = (),
        limit: int = 50,
        cursor: str | None = None,
    ) -> FactPage:
        """Returns facts in code-point order of their keys, those with all of `tags`.

        The cursor stays good while others write: no key is repeated, and none that was there
        throughout is left out. `limit` is 1 to 1,000.
        """
        ...

    def fact_delete(
        self,
        caller: Caller,
        namespace: str,
        key: str,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> Fact:
        """Removes the fact and returns what was removed; its versions stay readable.

        Raises `NotFound` if the key is absent, `Conflict` if the version is another.
        """
        ...

    def fact_restore(
        self,
        caller: Caller,
        namespace: str,
        key: str,
        version: int,
        idempotency_key: str | None = None,
    ) -> Fact:
        """Writes the value, tags and metadata of an older version as the next one, without expiry.

        Raises `NotFound` if there is no such version. The key itself may be absent by now.
        """
        ...

    def fact_search(self, caller: Caller, query: SearchQuery) -> SearchResult:
        """Returns the best `limit` (1 to 100) facts, best first; filters apply before ranking.

        Hybrid: 0.7 × cosine + 0.3 × words, where words = bm25 / max(bm25) × the share of the
        query that the fact covers, each word counted by its rarity. Lexical: bm25 / max(bm25).
        A long value ranks by its best window.
        """
        ...

    def event_list(
        self,
        namespace: str | None,
        key: str | None = None,
        include_reads: bool = False,
        limit: int = 50,
        cursor: str | None = None,
        only: EventFilter = ALL_EVENTS,
    ) -> EventPage:
        """Returns events, newest first, `limit` (1 to 1,000) a page; None asks for all namespaces.

        `include_reads` adds reads; `only.kinds` that name a read do too.
        """
        ...

    def event_follow(
        self,
        after: int | None,
        namespace: str | None = None,
        limit: int = 100,
        wait_seconds: float = 0.0,
        include_reads: bool = False,
    ) -> EventFeed:
        """Returns the events after the one with the id `after`, oldest first.

        With none there it waits up to `wait_seconds` (0 to 30) for one. The feed's `after` is
        where to go on, and no event is missed by doing so; None starts behind the newest event
        without waiting.
        """
        ...

    def change_take(
        self, owner: str, model: str, limit: int = 32, lease_seconds: float = 30.0
    ) -> list[Change]:
        """Leases up to `limit` changes to `owner`, oldest first; a lease that ran out is free.

        Returns nothing when `model` (an identity's `id`) is not the one in use.
        """
        ...

    def change_fail(self, owner: str, sequence: int, reason: str) -> None:
        """Ends a lease without a vector. After 5 tries the change is set aside with the reason.

        A lease that ran out counts as a try too: the text may be what ends its workers.
        """
        ...

    def change_release(self, owner: str) -> int:
        """Ends all leases of `owner` as if they had never been, and returns how many.

        For a worker that stops, or whose model cannot be had: it is no fault of the texts.
        """
        ...

    def vector_put(self, owner: str, model: str, vectors: Sequence[SubjectVectors]) -> int:
        """Stores vectors and ends their changes; returns how many facts were taken.

        Vectors of a version that is no longer the fact's are dropped, as are those of a model
        that is not the one in use.
        """
        ...

    def model_use(self, identity: ModelIdentity) -> int:
        """Makes this the model in use and queues every fact without its vector.

        Returns how many are pending. Calling it again queues nothing twice; facts that were
        set aside are tried again.
        """
        ...

    def namespace_list(self) -> list[NamespaceInfo]:
        """Returns the namespaces that hold facts, by name."""
        ...

    def tag_list(self, namespace: str, prefix: str = "", limit: int = 100) -> list[str]:
        """Returns tags of the namespace's facts that begin with `prefix`, in code-point order.

        `limit` is 1 to 1,000.
        """
        ...

    def namespace_rename(self, caller: Caller, namespace: str, name: str) -> NamespaceInfo:
        """Gives a namespace another name; its facts, versions and events stay with it.

        Raises `NotFound` if there is no such namespace, `Conflict` if the new name is taken.
        """
        ...

    def namespace_delete(self, caller: Caller, namespace: str, expected_facts: int) -> int:
        """Deletes all facts of a namespace, each with its event, and returns how many.

        Versions and events stay. `expected_facts` is what the caller believes is there: raises
        `Conflict` if it is another number, `NotFound` if there is no such namespace.
        """
        ...

    def token_create(self, caller: Caller, grant: TokenGrant) -> NewToken:
        """Makes a token. Raises `Conflict` if its name was ever used."""
        ...

    def token_rotate(self, caller: Caller, name: str, overlap_seconds: float = 0.0) -> NewToken:
        """Gives a token a new secret; older ones are good for `overlap_seconds` (≤ 30 days) more.

        Raises `NotFound` if there is no such token or it was revoked or has expired.
        """
        ...

    def token_revoke(self, caller: Caller, name: str) -> Token:
        """Ends a token for good. Raises `NotFound`; revoking again changes nothing."""
        ...

    def token_list(self) -> list[Token]:
        """Returns all tokens ever made, by name."""
        ...

    def token_verify(self, digest: str) -> Token | None:
        """Returns the token that a secret proves, None if it proves nothing (any more).

        `digest` is the secret's SHA-256 in hexadecimal: the secret itself stays at the door.
        The use is noted within a few seconds.
        """
        ...

    def lock_hold(self, seconds: float) -> float:
        """Holds the write lock (0 to 60 seconds) to show what contention does.

        Returns how long it was held.
        """
        ...

    def stats(self, namespace: str | None = None) -> Stats:
        """Returns counts and sizes, of one namespace or of all."""
        ...
