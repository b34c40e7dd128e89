"""Errors of the HTTP interface as problem details, RFC 9457."""

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from memory_store.contract import Fact, StoreError

MEDIA_TYPE = "application/problem+json"


@dataclass(frozen=True)
class Kind:
    """What a status means here. `title` is that of RFC 9110, which Python's own is not in every
    version; `code` is for what was refused before it reached the memory, whose errors have their
    own."""

    title: str
    code: str
    meaning: str
    retryable: bool = False


KINDS = {
    401: Kind("Unauthorized", "unauthorized", "No token, or one that proves nobody."),
    403: Kind("Forbidden", "forbidden", "The token does not allow it, or the origin is foreign."),
    404: Kind("Not Found", "not_found", "It is not there."),
    405: Kind("Method Not Allowed", "method_not_allowed", "This method is not served here."),
    408: Kind("Request Timeout", "body_too_slow", "The body did not arrive in time.", True),
    409: Kind("Conflict", "conflict", "A condition did not hold, or a name is taken."),
    412: Kind(
        "Precondition Failed",
        "conflict",
        "A condition of the headers did not hold; `current` is the fact that won.",
    ),
    413: Kind("Content Too Large", "body_too_large", "The body is too large."),
    415: Kind("Unsupported Media Type", "unsupported_media_type", "The body is not JSON."),
    421: Kind("Misdirected Request", "host_not_served", "This host name is not served."),
    422: Kind(
        "Unprocessable Content",
        "invalid_argument",
        "A parameter or the body is not allowed; `argument` names which.",
    ),
    429: Kind("Too Many Requests", "too_many_requests", "Too many requests.", True),
    500: Kind("Internal Server Error", "internal", "A fault of the server's own."),
    503: Kind(
        "Service Unavailable", "unavailable", "The memory is busy or cannot be reached.", True
    ),
}
OTHER = Kind("Refused", "refused", "It was refused.")


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
    kind = KINDS.get(status, OTHER)
    return ProblemDetails(
        title=kind.title,
        status=status,
        detail=detail,
        code=kind.code,
        retryable=kind.retryable,
        request_id=request_id,
    )


def problem_of(error: StoreError, request_id: str | None = None) -> ProblemDetails:
    return ProblemDetails(
        title=KINDS.get(error.status, OTHER).title,
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
