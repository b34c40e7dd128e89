"""`/api/v1/events`: who did what, when."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import Field

from memory_gateway.api.answers import page_answer
from memory_gateway.api.asking import Asking
from memory_gateway.api.strict import StrictRoute
from memory_gateway.api.words import (
    Client,
    Cursor,
    Flag,
    Key,
    Limit,
    Namespace,
    Parameters,
    Time,
)
from memory_gateway.context import Context
from memory_store.contract import EventFilter, EventKind, EventPage

router = APIRouter(route_class=StrictRoute, tags=["events"])


class EventList(Parameters):
    namespace: Namespace | None = Field(default=None, description="Default: all of them.")
    key: Key | None = Field(default=None, description="Default: all of them.")
    kinds: list[EventKind] = Field(
        default=[], description="Events of one of these; naming a read includes reads."
    )
    source_client: Client | None = None
    since: Time | None = Field(default=None, description="Events at this time and later.")
    until: Time | None = Field(default=None, description="Events before this time.")
    include_reads: Flag = Field(default=False, description="Also who read what.")
    limit: Limit = 50
    cursor: Cursor | None = None


@router.get(
    "/events",
    operation_id="list_events",
    summary="List events, newest first",
    response_model=EventPage,
)
async def list_events(asked: Asking, wanted: Annotated[EventList, Query()]) -> Response:
    only = EventFilter(
        kinds=tuple(wanted.kinds),
        source_client=wanted.source_client,
        since=wanted.since,
        until=wanted.until,
    )

    def question(context: Context) -> Response:
        fetch = partial(
            context.store.event_list,
            wanted.namespace,
            key=wanted.key,
            include_reads=wanted.include_reads,
            cursor=wanted.cursor,
            only=only,
        )
        return page_answer(asked.request, lambda limit: fetch(limit=limit), wanted.limit)

    return await asked.read(question)
