"""Errors of the HTTP interface as problem details, RFC 9457."""

from pydantic import BaseModel, ConfigDict, Field

from memory_store.contract import Fact, StoreError

MEDIA_TYPE = "application/problem+json"
TITLES = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    409: "Conflict",
    412: "Precondition Failed",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    421: "Misdirected Request",
    422: "Unprocessable Content",
    429: "Too Many Requests",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
"""Those of RFC 9110; Python's own change from version to version."""
CODES = {
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "body_too_slow",
    413: "body_too_large",
    415: "unsupported_media_type",
    421: "host_not_served",
    422: "invalid_argument",
    429: "too_many_requests",
    500: "internal",
    503: "unavailable",
}
"""Codes of what is refused before it reaches the memory, whose errors have their own."""
RETRYABLE = frozenset({408, 429, 503})
OTHER = "refused"
REFUSED = "Refused"


class ProblemDetails(BaseModel):
    """Why a request was refused: a stable `code` for programs, a sentence in `detail` for people.

    `current` is the fact that won, after a conflict; `argument` names what is not allowed.
    """

    model_config = ConfigDict(frozen=True)

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    code: str = Field(
        description="Stable: `conflict`, `not_found`, `invalid_argument`, `busy` and so on."
    )
    retryable: bool = Field(default=False, description="Whether trying again can help.")
    argument: str | None = None
    current: Fact | None = None
    request_id: str | None = None

    def encode(self) -> bytes:
        absent = {name for name, value in self if value is None}
        return self.model_dump_json(exclude=absent).encode()


def problem(status: int, detail: str, request_id: str | None = None) -> ProblemDetails:
    """The problem of a request that did not reach the memory."""
    return ProblemDetails(
        title=TITLES.get(status, REFUSED),
        status=status,
        detail=detail,
        code=CODES.get(status, OTHER),
        retryable=status in RETRYABLE,
        request_id=request_id,
    )


def problem_of(error: StoreError, request_id: str | None = None) -> ProblemDetails:
    return ProblemDetails(
        title=TITLES[error.status],
        status=error.status,
        detail=error.message,
        code=error.code,
        retryable=error.retryable,
        argument=error.argument,
        current=error.current,
        request_id=request_id,
    )


def is_api(path: str) -> bool:
    """Whether errors at a path are told as problem details."""
    return path == "/api" or path.startswith("/api/")
