"""`/api/v1/facts`: many facts at once."""

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import Field

from memory_gateway import questions
from memory_gateway.api.answers import Facts, Outcomes, answer, page_answer
from memory_gateway.api.asking import NOT_REPEATED, Asking
from memory_gateway.api.strict import StrictRoute
from memory_gateway.api.words import (
    MOST_AT_ONCE,
    Body,
    Cursor,
    Key,
    Limit,
    Namespace,
    Parameters,
    Prefix,
    Tags,
    Whole,
)
from memory_gateway.context import Context
from memory_store.contract import DEFAULT_NAMESPACE, FactPage, FactWrite

router = APIRouter(route_class=StrictRoute, tags=["facts"])


class FactList(Parameters):
    namespace: Namespace = DEFAULT_NAMESPACE
    prefix: Prefix = ""
    tags: Tags = Field(default=[], description="Facts with all of these.")
    limit: Limit = 50
    cursor: Cursor | None = None


class Write(Body):
    """One of many writes, as for one fact, with at most one of the three conditions. A text or
    number that is not allowed is the problem of this write alone."""

    key: str = Field(examples=["deploy/db-port"])
    value: str = Field(examples=["5432"])
    tags: list[str] | None = None
    metadata: dict[str, Any] | None = None
    ttl_seconds: float | None = None
    expected_value: str | None = None
    expected_version: Annotated[int, Whole] | None = Field(
        default=None, description="Write only if this is the version; 0: if absent."
    )
    require_absent: bool = False
    idempotency_key: str | None = Field(
        default=None, description="A retry with the same one writes once."
    )


class Writes(Body):
    namespace: Namespace = DEFAULT_NAMESPACE
    writes: list[Write] = Field(min_length=1, max_length=MOST_AT_ONCE)


class Keys(Body):
    namespace: Namespace = DEFAULT_NAMESPACE
    keys: list[Key] = Field(min_length=1, max_length=MOST_AT_ONCE)


@router.get(
    "/facts",
    operation_id="list_facts",
    summary="List facts in the order of their keys",
    response_model=FactPage,
)
async def list_facts(asked: Asking, wanted: Annotated[FactList, Query()]) -> Response:
    def question(context: Context) -> Response:
        fetch = partial(
            context.store.fact_list,
            context.caller,
            wanted.namespace,
            prefix=wanted.prefix,
            tags=wanted.tags,
            cursor=wanted.cursor,
        )
        return page_answer(asked.request, lambda limit: fetch(limit=limit), wanted.limit)

    return await asked.read(question)


@router.post(
    "/facts/set",
    operation_id="set_facts",
    summary="Store up to 100 values, each on its own",
    dependencies=[NOT_REPEATED],
    response_model=Outcomes,
)
async def set_facts(asked: Asking, body: Writes) -> Response:
    """Answers one outcome for each write, in order: the fact, or the problem that it met."""
    writes = [_write(body.namespace, write) for write in body.writes]

    def question(context: Context) -> Response:
        return answer(Outcomes(outcomes=tuple(questions.set_many(context, writes))))

    return await asked.write(question)


@router.post(
    "/facts/get",
    operation_id="read_facts",
    summary="Read up to 100 facts",
    response_model=Facts,
)
async def read_facts(asked: Asking, body: Keys) -> Response:
    """Answers the facts in the order of their keys, null where one is absent."""

    def question(context: Context) -> Response:
        facts = context.store.fact_get_many(context.caller, body.namespace, body.keys)
        return answer(Facts(facts=tuple(facts)))

    return await asked.read(question)


def _write(namespace: str, write: Write) -> FactWrite:
    tags = None if write.tags is None else tuple(write.tags)
    return FactWrite.model_validate(write.model_dump() | {"namespace": namespace, "tags": tags})
