"""`/api/v1/search`: facts by meaning and by words."""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import Field, WithJsonSchema

from memory_gateway import questions
from memory_gateway.api.answers import Hits, answer
from memory_gateway.api.asking import Asked, Asking
from memory_gateway.api.strict import StrictRoute
from memory_gateway.api.words import (
    NO_NUL,
    Body,
    Namespace,
    NumberText,
    Parameters,
    Prefix,
    Tags,
    Whole,
    WholeText,
)
from memory_gateway.context import Context
from memory_store.contract import DEFAULT_NAMESPACE, SearchMode, SearchQuery

QUESTION = {
    "type": "string",
    "minLength": 1,
    "maxLength": 16_384,
    "pattern": NO_NUL,
    "description": "A question, or words.",
    "examples": ["which port does the database use?"],
}

Text = Annotated[str, WithJsonSchema(QUESTION)]
Best = Field(ge=1, le=100, description="The most facts to find.")
Score = Field(ge=0, le=1, description="Scores compare only within one mode.")
Wanted = Field(default=[], description="Facts with all of these.")

router = APIRouter(route_class=StrictRoute, tags=["search"])


class SearchParameters(Parameters):
    query: Text
    namespace: Namespace = DEFAULT_NAMESPACE
    top_k: Annotated[int, Best, WholeText] = 5
    tags: Tags = Wanted
    prefix: Prefix = ""
    mode: SearchMode = "hybrid"
    min_score: Annotated[float, Score, NumberText] | None = None


class SearchBody(Body):
    query: Text
    namespace: Namespace = DEFAULT_NAMESPACE
    top_k: Annotated[int, Best, Whole] = 5
    tags: Tags = Wanted
    prefix: Prefix = ""
    mode: SearchMode = "hybrid"
    min_score: Annotated[float, Score] | None = None


@router.get(
    "/search",
    operation_id="search_facts",
    summary="Find facts, best first",
    response_model=Hits,
)
async def search_facts(asked: Asking, wanted: Annotated[SearchParameters, Query()]) -> Response:
    return await _search(asked, wanted)


@router.post(
    "/search",
    operation_id="search_facts_by_body",
    summary="Find facts, best first, for a question that is too long or too private for an address",
    response_model=Hits,
)
async def search_facts_by_body(asked: Asking, body: SearchBody) -> Response:
    return await _search(asked, body)


async def _search(asked: Asked, wanted: SearchParameters | SearchBody) -> Response:
    query = SearchQuery(
        namespace=wanted.namespace,
        text=wanted.query,
        limit=wanted.top_k,
        tags=tuple(wanted.tags),
        prefix=wanted.prefix,
        mode=wanted.mode,
        min_score=wanted.min_score,
    )

    def question(context: Context) -> Response:
        found, degraded = questions.search(context, query)
        return answer(Hits.model_validate(dict(found) | {"degraded": degraded}))

    return await asked.read(question)
