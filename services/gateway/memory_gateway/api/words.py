"""What the parameters of the HTTP interface may be, as the OpenAPI document says it.

Lengths are those of a store as it comes; the store itself holds its own, wherever they were set.
Texts from the query are exact: `limit=5` is a number, `5.0`, ` 5` and `1_0` are not.
"""

import re
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    WithJsonSchema,
)

from memory_store.contract import UNSEEN

HIGHEST_VERSION = 2_000_000_000
MOST_AT_ONCE = 100
NO_NUL = r"^[^\u0000]*$"
NAME = f"^[^{UNSEEN}/.][^{UNSEEN}/]*$"
TIME = "must be a time such as 2026-01-31T12:00:00Z (RFC 3339)"
AT = f"must be a version from 1 to {HIGHEST_VERSION}, or a time such as 2026-01-31T12:00:00Z"

_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_WHOLE = re.compile(r"-?[0-9]{1,18}")
_NUMBER = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?([eE][+-]?[0-9]{1,3})?")
_FLAGS = {"true": True, "false": False}


class Parameters(BaseModel):
    """The query of a request. What it may hold beside is decided from the document."""


class Body(BaseModel):
    """The body of a request: closed to unknown fields, nothing taken for what it is not."""

    model_config = ConfigDict(extra="forbid", strict=True)


def _string(*, least: int = 0, most: int, **more: Any) -> WithJsonSchema:
    lengths = {"minLength": least} if least else {}
    return WithJsonSchema(
        {"type": "string", **lengths, "maxLength": most, "pattern": NO_NUL, **more}
    )


def _exactly(pattern: re.Pattern[str], what: str) -> BeforeValidator:
    def check(value: object) -> object:
        if isinstance(value, str) and not pattern.fullmatch(value):
            raise ValueError(f"must be {what}")
        return value

    return BeforeValidator(check)


def _flag(value: object) -> object:
    if isinstance(value, str) and value not in _FLAGS:
        raise ValueError("must be true or false")
    return _FLAGS.get(value, value) if isinstance(value, str) else value


def _time(value: object) -> datetime:
    if not isinstance(value, str) or not _TIME.fullmatch(value):
        raise ValueError(TIME)
    try:
        return datetime.fromisoformat(value.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(TIME) from None


def _at(value: object) -> int | datetime:
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        if not 1 <= int(value) <= HIGHEST_VERSION:
            raise ValueError(AT)
        return int(value)
    try:
        return _time(value)
    except ValueError:
        raise ValueError(AT) from None


def _name(value: str) -> str:
    if value.startswith(".") or "/" in value:
        raise ValueError("must not contain a slash nor begin with a dot: it stands in addresses")
    return value


def _without_nul(value: str) -> str:
    if "\0" in value:
        raise ValueError("must not contain a NUL character")
    return value


def _integral(value: object) -> object:
    """JSON knows one kind of number: 1.0 is the whole number 1."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_TIME_SCHEMA = {"type": "string", "format": "date-time"}
_VERSION_SCHEMA = {"type": "integer", "minimum": 1, "maximum": HIGHEST_VERSION}

Namespace = Annotated[
    str,
    Field(min_length=1, max_length=128),
    AfterValidator(_without_nul),
    _string(least=1, most=128, description="A separate memory.", examples=["default"]),
]
Key = Annotated[
    str,
    _string(
        least=1,
        most=256,
        description="Any text, as it is: slashes, dots and blanks mean nothing.",
        examples=["deploy/db-port"],
    ),
]
Prefix = Annotated[str, _string(most=256, description="What keys begin with.")]
Value = Annotated[str, _string(most=16_384, examples=["5432"])]
ExpectedValue = Annotated[str, _string(most=16_384)]
Client = Annotated[str, _string(most=128, description="Who did it.")]
Tag = Annotated[str, _string(least=1, most=128, examples=["ops"])]
Tags = Annotated[list[Tag], Field(json_schema_extra={"maxItems": 64})]
TokenName = Annotated[
    str, AfterValidator(_name), _string(least=1, most=128, pattern=NAME, examples=["ci"])
]
Cursor = Annotated[
    str,
    Field(description="The `next_cursor` of the page before, with the same parameters."),
]
Time = Annotated[
    datetime,
    PlainValidator(_time),
    WithJsonSchema(_TIME_SCHEMA | {"examples": ["2026-01-31T12:00:00Z"]}),
]
Future = Annotated[
    datetime,
    PlainValidator(_time),
    WithJsonSchema(_TIME_SCHEMA | {"examples": ["2099-01-31T12:00:00Z"]}),
]
At = Annotated[
    int | datetime,
    PlainValidator(_at),
    WithJsonSchema(
        {
            "anyOf": [_VERSION_SCHEMA, _TIME_SCHEMA],
            "description": "A version, or what was there at a time.",
        }
    ),
]
WholeText = _exactly(_WHOLE, "a whole number")
NumberText = _exactly(_NUMBER, "a number")
Flag = Annotated[bool, BeforeValidator(_flag)]
Limit = Annotated[
    int, Field(ge=1, le=1_000, description="The most that a page may hold."), WholeText
]
Whole = BeforeValidator(_integral)
