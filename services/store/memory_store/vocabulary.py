"""The words of the memory. No technology lives here.

Text is any Unicode except NUL and lone surrogates and is kept and compared exactly as given.
Times are UTC with millisecond precision. Vectors are little-endian float32, normalised, as bytes.
"""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    PlainSerializer,
    WithJsonSchema,
)

DEFAULT_NAMESPACE = "default"
UNSEEN = r"\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
"""What no log shows as it is: controls, ends of lines, what turns or hides the text around it.
Within a regular expression's brackets, in Python's and in JSON Schema's dialect."""


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
    WithJsonSchema({"type": "string", "format": "date-time"}),
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
    """`mode` is the one that was used, which is `lexical` whenever no vector could be compared.

    `pending` says how many facts of the namespace could not be found by meaning yet, counted to
    1,000 and only where meaning was asked for.
    """

    mode: SearchMode
    hits: tuple[SearchHit, ...]
    pending: int = 0


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
    """What a token is made for. `namespaces` None means all.

    `write` includes `read`, since a refused write answers with the fact that won; `admin` both.
    """

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
    """Counts of one namespace, or of all when `namespace` is None; `bytes` is the whole store's.

    `free_bytes` is what its disk has left, None where the store cannot see that.
    """

    namespace: str | None
    facts: int
    versions: int
    events: int
    embedded: int
    backlog: Backlog
    model: str | None
    namespaces: int
    bytes: int
    free_bytes: int | None = None
    engine: str
    schema_version: int
