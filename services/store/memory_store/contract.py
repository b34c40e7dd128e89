"""The words of the memory, its errors, and what a store promises. No technology lives here.

Text is any Unicode except NUL and lone surrogates and is kept and compared exactly as given.
Times are UTC with millisecond precision. Vectors are little-endian float32, normalised, as bytes.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Literal, Protocol

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, PlainSerializer

DEFAULT_NAMESPACE = "default"


def to_milliseconds(moment: datetime) -> datetime:
    moment = moment.astimezone(UTC)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def iso(moment: datetime) -> str:
    """ISO 8601, UTC, milliseconds: `2026-01-31T12:00:00.000Z`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


Moment = Annotated[
    AwareDatetime,
    AfterValidator(to_milliseconds),
    PlainSerializer(iso, return_type=str, when_used="json"),
]
IndexState = Literal["ready", "pending", "failed"]
SearchMode = Literal["hybrid", "semantic", "lexical"]
EventKind = Literal[
    "set",
    "delete",
    "conflict",
    "get",
    "list",
    "search",
    "restore",
    "expire",
    "import",
    "rename",
    "token",
    "retain",
]
TokenScope = Literal["read", "write", "admin"]
READ_KINDS: tuple[EventKind, ...] = ("get", "list", "search")


class Word(BaseModel):
    """A value of the contract: immutable, closed to unknown fields, bytes as base64 in JSON.

    NaN and infinity stay what they are in JSON: as null they would pass for an omitted number.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        ser_json_bytes="base64",
        val_json_bytes="base64",
        ser_json_inf_nan="constants",
    )


class Caller(Word):
    """Who asks. `principal` is what the token proves, `source_client` who the caller says it is.

    `self_reported` marks a `source_client` that nothing proves. With a per-client token it is
    False, `source_client` is the token's name, and `claimed_client` keeps what was claimed.
    """

    principal: str
    source_client: str
    self_reported: bool = True
    claimed_client: str | None = None
    request_id: str | None = None


class Fact(Word):
    """What a namespace holds under a key, in one version.

    `index` says whether it can be found by meaning yet; None for a version that is not the newest.
    """

    namespace: str
    key: str
    value: str
    version: int
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}
    expires_at: Moment | None = None
    created_at: Moment
    updated_at: Moment
    source_client: str
    principal: str
    self_reported: bool = True
    index: IndexState | None = None


class FactWrite(Word):
    """One write. Omitted `tags` and `metadata` stay as they are; an omitted `ttl_seconds` means
    that this version does not expire. At most one of the three conditions may be given;
    `expected_version=0` means the same as `require_absent`.
    """

    namespace: str = DEFAULT_NAMESPACE
    key: str
    value: str
    expected_value: str | None = None
    expected_version: int | None = None
    require_absent: bool = False
    tags: tuple[str, ...] | None = None
    metadata: dict[str, Any] | None = None
    ttl_seconds: float | None = None
    idempotency_key: str | None = None


class Problem(Word):
    """An error as a value: a stable code for programs and a sentence for people."""

    code: str
    message: str
    retryable: bool = False
    argument: str | None = None
    current: Fact | None = None


class FactOutcome(Word):
    """What became of one of many writes: exactly one of the two is set."""

    fact: Fact | None = None
    problem: Problem | None = None


class FactPage(Word):
    facts: tuple[Fact, ...]
    next_cursor: str | None = None


class SearchQuery(Word):
    """`vector` was made from `text` by `model` (an identity's `id`); without it: lexical."""

    namespace: str = DEFAULT_NAMESPACE
    text: str
    vector: bytes | None = None
    model: str | None = None
    limit: int = 5
    tags: tuple[str, ...] = ()
    prefix: str = ""
    mode: SearchMode = "hybrid"
    min_score: float | None = None


class SearchHit(Word):
    """`score` is in 0..1. `cosine` and `lexical` are its parts; None where that side did not
    find the fact."""

    fact: Fact
    score: float
    cosine: float | None = None
    lexical: float | None = None


class SearchResult(Word):
    """`mode` is the one that was used, which is `lexical` whenever no vector could be compared."""

    mode: SearchMode
    hits: tuple[SearchHit, ...]


class Event(Word):
    """One row of the audit trail. `value_before` and `value_after` are None where there was none.

    A conflict's `value_before` is the value that won and `value_after` the one that was refused.
    `version` is the version that the event made, removed, read or, for a conflict, lost against.
    `detail` holds what is particular to the kind (a search's query, a restore's source version).
    `namespace` is its present name, None for what concerns no namespace (tokens).
    """

    id: int
    at: Moment
    namespace: str | None
    kind: EventKind
    key: str | None
    version: int | None
    value_before: str | None
    value_after: str | None
    source_client: str
    principal: str
    self_reported: bool
    claimed_client: str | None
    request_id: str | None
    detail: dict[str, Any] = {}


class EventPage(Word):
    events: tuple[Event, ...]
    next_cursor: str | None = None


class EventFilter(Word):
    """Which events are wanted; an empty field asks for nothing. `since` ≤ time < `until`."""

    kinds: tuple[EventKind, ...] = ()
    source_client: str | None = None
    since: Moment | None = None
    until: Moment | None = None


ALL_EVENTS = EventFilter()


class EventFeed(Word):
    """Events in the order in which they became known, and from where to go on."""

    events: tuple[Event, ...]
    after: int


class Change(Word):
    """A fact's version that awaits its embedding. `text` is what to embed."""

    sequence: int
    subject: int
    version: int
    text: str


class ModelIdentity(Word):
    """The identity of an embedding space. Vectors of different identities are never compared."""

    name: str
    digest: str
    dimension: int
    pooling: str = "mean"

    @property
    def id(self) -> str:
        return f"{self.name}:{self.dimension}:{self.pooling}:{self.digest[:16]}"


class SubjectVectors(Word):
    """The vectors of one fact's version: one a window of its text, in order."""

    sequence: int
    subject: int
    version: int
    windows: tuple[bytes, ...]


class NamespaceInfo(Word):
    name: str
    facts: int


class TokenGrant(Word):
    """What a token is made for. `namespaces` None means all; `admin` includes read and write."""

    name: str
    scopes: tuple[TokenScope, ...]
    namespaces: tuple[str, ...] | None = None
    expires_at: Moment | None = None


class Token(TokenGrant):
    """A token as it is known; its secret is not."""

    created_at: Moment
    created_by: str
    last_used_at: Moment | None = None
    revoked_at: Moment | None = None


class NewToken(Word):
    """A token and its secret, which is told this once and kept only as its SHA-256."""

    token: Token
    secret: str


class Backlog(Word):
    """Facts awaiting their embedding, those set aside after too many tries, and an example why."""

    pending: int
    failed: int
    failure: str | None = None


class Stats(Word):
    """Counts of one namespace, or of all when `namespace` is None; `bytes` is the whole store's."""

    namespace: str | None
    facts: int
    versions: int
    events: int
    embedded: int
    backlog: Backlog
    model: str | None
    namespaces: int
    bytes: int
    engine: str
    schema_version: int


class StoreError(Exception):
    """The root of what a store raises. `retryable` says whether trying again can help."""

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False

    def __init__(
        self, message: str, *, argument: str | None = None, current: Fact | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.argument = argument
        self.current = current

    def problem(self) -> Problem:
        return Problem(
            code=self.code,
            message=self.message,
            retryable=self.retryable,
            argument=self.argument,
            current=self.current,
        )


class Invalid(StoreError):
    """An argument is not allowed; `argument` names it and the message gives the limit."""

    code = "invalid_argument"
    status = 422


class NotFound(StoreError):
    code = "not_found"
    status = 404


class Conflict(StoreError):
    """A condition did not hold; `current` is the fact that won, None if the key is absent."""

    code = "conflict"
    status = 409


class IdempotencyMismatch(StoreError):
    """The idempotency key was used before for a different write."""

    code = "idempotency_mismatch"
    status = 409


class Busy(StoreError):
    """Another process held the write lock for too long. Nothing was written."""

    code = "busy"
    status = 503
    retryable = True


class Unavailable(StoreError):
    """The store cannot be reached or is closing; whether a write landed is unknown."""

    code = "unavailable"
    status = 503
    retryable = True


class Internal(StoreError):
    """A fault of the store's own. The log has the whole of it, the message nothing."""


ERRORS: dict[str, type[StoreError]] = {
    error.code: error
    for error in (Invalid, NotFound, Conflict, IdempotencyMismatch, Busy, Unavailable, Internal)
}


def error_from(problem: Problem) -> StoreError:
    return ERRORS.get(problem.code, Internal)(
        problem.message, argument=problem.argument, current=problem.current
    )


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

    def fact_restore(self, caller: Caller, namespace: str, key: str, version: int) -> Fact:
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

        Raises `NotFound` if there is no such token or it was revoked.
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
