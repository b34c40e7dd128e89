"""`/api/v1/stats` and `/api/v1/version`: how the memory is."""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import Field

from memory_gateway.api.answers import State, Version, answer
from memory_gateway.api.asking import Asking
from memory_gateway.api.strict import StrictRoute
from memory_gateway.api.words import Namespace, Parameters
from memory_gateway.context import Context
from memory_gateway.version import VERSION

NAME = "memory-bridge"

router = APIRouter(route_class=StrictRoute, tags=["state"])


class Counted(Parameters):
    namespace: Namespace | None = Field(default=None, description="Default: all of them.")


@router.get(
    "/stats",
    operation_id="read_stats",
    summary="Counts, sizes, embedding backlog, model",
    response_model=State,
)
async def read_stats(asked: Asking, wanted: Annotated[Counted, Query()]) -> Response:
    def question(context: Context) -> Response:
        stats = context.store.stats(wanted.namespace)
        further = {"server_version": VERSION, "degraded": context.embedder.trouble()}
        return answer(State.model_validate(dict(stats) | further))

    return await asked.read(question)


@router.get(
    "/version",
    operation_id="read_version",
    summary="What serves here",
    response_model=Version,
)
async def read_version() -> Response:
    return answer(Version(name=NAME, version=VERSION))
