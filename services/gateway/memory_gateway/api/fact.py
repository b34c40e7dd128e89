"""`/api/v1/fact`: one fact, by its key.

A key stands in the query, never in the path: there it would not arrive as it was sent. Browsers and
proxies resolve `..` (even as `%2E%2E`), join `//`, and turn `%2F` into a slash.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response
from pydantic import Field

from memory_gateway.api.answers import fact_answer, unchanged
from memory_gateway.api.asking import Asking
from memory_gateway.api.document import errors
from memory_gateway.api.strict import StrictRoute
from memory_gateway.api.versions import (
    Condition,
    IfAbsent,
    IfChanged,
    IfMatch,
    condition,
    is_known,
)
from memory_gateway.api.words import (
    HIGHEST_VERSION,
    At,
    Body,
    ExpectedValue,
    Key,
    Namespace,
    Parameters,
    Tags,
    Value,
    WholeText,
)
from memory_gateway.context import Context
from memory_store.contract import DEFAULT_NAMESPACE, Conflict, Fact, FactWrite, NotFound

ABSENT = "There is no fact under this key."
NO_VERSION = "There was no fact under this key then."
Responses = dict[int | str, dict[str, Any]]
TAGGED = {"ETag": {"schema": {"type": "string"}, "description": "The version, in quotes."}}
SAME_KEY = {"key": "$response.body#/key", "namespace": "$response.body#/namespace"}
SAME_VERSION = SAME_KEY | {"version": "$response.body#/version"}
ONWARD = {
    "read": {"operationId": "read_fact", "parameters": SAME_KEY},
    "delete": {"operationId": "delete_fact", "parameters": SAME_KEY},
    "restore": {"operationId": "restore_fact", "parameters": SAME_VERSION},
}
EXAMPLE = Fact(
    namespace=DEFAULT_NAMESPACE,
    key="deploy/db-port",
    value="5432",
    version=3,
    tags=("ops",),
    created_at=datetime(2026, 1, 31, 12, tzinfo=UTC),
    updated_at=datetime(2026, 2, 1, 8, 30, tzinfo=UTC),
    source_client="claude-code",
    principal="installation",
    index="ready",
).model_dump(mode="json")
SHOWN = {"headers": TAGGED, "content": {"application/json": {"example": EXAMPLE}}}
FOUND: Responses = {200: SHOWN}
STORED: Responses = {
    200: SHOWN | {"links": ONWARD},
    201: SHOWN | {"model": Fact, "links": ONWARD, "description": "The key was absent."},
}
UNCHANGED: Responses = {304: {"headers": TAGGED, "description": "The client has this version."}}

IdempotencyHeader = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern=r"^[!-~]{1,128}$",
        description="A retry with the same one writes once and is answered the same (24 hours).",
    ),
]

router = APIRouter(route_class=StrictRoute, tags=["facts"])


class FactAddress(Parameters):
    key: Key
    namespace: Namespace = DEFAULT_NAMESPACE


class FactAt(FactAddress):
    at: At | None = None


class FactVersion(FactAddress):
    version: Annotated[int, Field(ge=1, le=HIGHEST_VERSION), WholeText]


class NewValue(Body):
    """What is to stand under a key. Omitted `tags` and `metadata` stay as they are; without
    `ttl_seconds` this version does not expire."""

    value: Value
    tags: Tags | None = None
    metadata: dict[str, Any] | None = None
    ttl_seconds: float | None = Field(default=None, ge=0.001, le=10 * 365 * 24 * 3600)
    expected_value: ExpectedValue | None = Field(
        default=None, description="Write only if this is the value; 409 if it is not."
    )


@router.get(
    "/fact",
    operation_id="read_fact",
    summary="Read a fact, as it is or as it was",
    response_model=Fact,
    responses=FOUND | UNCHANGED | errors(404),
)
async def read_fact(
    asked: Asking, address: Annotated[FactAt, Query()], if_none_match: IfChanged = None
) -> Response:
    def question(context: Context) -> Response:
        fact = context.store.fact_get(context.caller, address.namespace, address.key, address.at)
        if fact is None:
            raise NotFound(ABSENT if address.at is None else NO_VERSION, argument="key")
        if is_known(fact, if_none_match):
            return unchanged(fact)
        return fact_answer(fact)

    return await asked.read(question)


@router.put(
    "/fact",
    operation_id="set_fact",
    summary="Store a value as the key's next version",
    response_model=Fact,
    responses=STORED | errors(409, 412),
)
async def set_fact(
    asked: Asking,
    address: Annotated[FactAddress, Query()],
    body: NewValue,
    if_match: IfMatch = None,
    if_none_match: IfAbsent = None,
    idempotency_key: IdempotencyHeader = None,
) -> Response:
    required = condition(if_match, if_none_match)
    write = _write(
        address,
        body,
        expected_version=required.version,
        require_absent=required.absent,
        idempotency_key=idempotency_key,
    )

    def question(context: Context) -> Response:
        fact = _kept(required, lambda: context.store.fact_set(context.caller, write))
        context.wrote(fact)
        created = required.version is None and fact.created_at == fact.updated_at
        return fact_answer(fact, 201 if created else 200)

    return await asked.write(question)


@router.delete(
    "/fact",
    operation_id="delete_fact",
    summary="Remove a fact; its versions stay readable",
    response_model=Fact,
    responses=FOUND | errors(404, 409, 412),
)
async def delete_fact(
    asked: Asking,
    address: Annotated[FactAddress, Query()],
    if_match: IfMatch = None,
    idempotency_key: IdempotencyHeader = None,
) -> Response:
    required = condition(if_match, None)

    def question(context: Context) -> Response:
        delete = partial(
            context.store.fact_delete,
            context.caller,
            address.namespace,
            address.key,
            required.version,
            idempotency_key,
        )
        return fact_answer(context.wrote(_kept(required, delete)))

    return await asked.write(question)


@router.post(
    "/fact/restore",
    operation_id="restore_fact",
    summary="Store an older version again, as the next one",
    response_model=Fact,
    responses=FOUND | errors(404, 409),
)
async def restore_fact(
    asked: Asking,
    old: Annotated[FactVersion, Query()],
    idempotency_key: IdempotencyHeader = None,
) -> Response:
    def question(context: Context) -> Response:
        fact = context.store.fact_restore(
            context.caller, old.namespace, old.key, old.version, idempotency_key
        )
        return fact_answer(context.wrote(fact))

    return await asked.write(question)


def _write(address: FactAddress, body: NewValue, **more: Any) -> FactWrite:
    given = body.model_dump() | address.model_dump() | more
    tags = None if body.tags is None else tuple(body.tags)
    return FactWrite.model_validate(given | {"tags": tags})


def _kept(required: Condition, write: Callable[[], Fact]) -> Fact:
    """A conflict with a condition of the headers is 412, with any other 409."""
    try:
        return write()
    except Conflict as conflict:
        if required:
            raise required.failed(conflict) from conflict
        raise
