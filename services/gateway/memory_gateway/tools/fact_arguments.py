"""The arguments of the tools over facts, with the words that models choose them by."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from memory_store.contract import DEFAULT_NAMESPACE, SearchMode

MANY = 100
HIGHEST_VERSION = 2_000_000_000

Version = Annotated[int, Field(ge=1, le=HIGHEST_VERSION)]
ExpectedVersion = Annotated[int, Field(ge=0, le=HIGHEST_VERSION)]
Limit = Annotated[int, Field(ge=1, le=1_000)]
Tags = Annotated[list[str], Field(description="facts with all of these")]


class Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    namespace: str = Field(default=DEFAULT_NAMESPACE, description="a separate memory")
    client_id: str | None = Field(default=None, description="who you are, if not the client itself")


class Write(BaseModel):
    model_config = ConfigDict(extra="forbid")

    key: str
    value: str
    expected_value: str | None = None
    expected_version: ExpectedVersion | None = None
    require_absent: bool = False
    tags: list[str] | None = None
    metadata: dict[str, Any] | None = None
    ttl_seconds: float | None = None
    idempotency_key: str | None = None


class SetArguments(Arguments):
    key: str = Field(description="such as project/topic; up to 256 characters")
    value: str = Field(description="text, up to 16,384 characters")
    expected_value: str | None = Field(default=None, description="write only if this is the value")
    expected_version: ExpectedVersion | None = Field(
        None, description="write only if this is the version; 0: if absent"
    )
    require_absent: bool = Field(default=False, description="write only if the key is new")
    tags: list[str] | None = Field(default=None, description="omit to keep those there are")
    metadata: dict[str, Any] | None = Field(default=None, description="omit to keep what there is")
    ttl_seconds: float | None = Field(default=None, description="expires after that many seconds")
    idempotency_key: str | None = Field(
        None, description="any text; a retry with the same writes once"
    )


class SetManyArguments(Arguments):
    writes: list[Write] = Field(min_length=1, max_length=MANY, description="each as for memory_set")


class GetArguments(Arguments):
    key: str
    at: int | str | None = Field(default=None, description="a version, or an ISO 8601 time")


class GetManyArguments(Arguments):
    keys: list[str] = Field(min_length=1, max_length=MANY)


class ListArguments(Arguments):
    prefix: str = ""
    tags: Tags = []
    limit: Limit = 50
    cursor: str | None = None


class DeleteArguments(Arguments):
    key: str
    expected_version: ExpectedVersion | None = Field(
        default=None, description="remove only this version"
    )
    idempotency_key: str | None = None


class SearchArguments(Arguments):
    query: str = Field(min_length=1, description="a question or words")
    top_k: Annotated[int, Field(ge=1, le=100)] = 5
    tags: Tags = []
    prefix: Annotated[str, Field(description="of the keys")] = ""
    mode: SearchMode = Field(default="hybrid", description="semantic: meaning; lexical: words")
    min_score: Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None, description="scores are 0 to 1 and compare only within one mode"
    )


class HistoryArguments(Arguments):
    key: str | None = Field(default=None, description="default: all keys")
    include_reads: bool = Field(default=False, description="also who read what")
    limit: Limit = 50
    cursor: str | None = None


class RestoreArguments(Arguments):
    key: str
    version: Version = Field(description="from memory_history")
    idempotency_key: str | None = None


class StatsArguments(Arguments):
    namespace: str | None = Field(default=None, description="default: all")  # pyright: ignore[reportIncompatibleVariableOverride]  # here no namespace means all of them


class HoldArguments(Arguments):
    seconds: Annotated[float, Field(ge=0, le=60)]
