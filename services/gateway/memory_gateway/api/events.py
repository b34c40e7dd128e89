"""`/api/v1/events`: who did what, when."""

from functools import partial
from typing import Annotated, Any, get_args

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


def _parameter(name: str, schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": schema, "description": description}


router = APIRouter(route_class=StrictRoute, tags=["events"])
STREAM: dict[str, Any] = {
    "tags": ["events"],
    "summary": "Follow events as they happen",
    "operationId": "follow_events",
    "description": "Server-sent events whose ids are those of the events; the last one, `dropped`,"
    " says why the stream ends and after which event to go on.",
    "parameters": [
        _parameter("namespace", {"type": "string"}, "Default: all of them."),
        _parameter("prefix", {"type": "string"}, "What keys begin with."),
        _parameter(
            "kinds",
            {"type": "array", "items": {"enum": list(get_args(EventKind))}},
            "Events of one of these; naming a read includes reads.",
        ),
        _parameter("include_reads", {"type": "boolean"}, "Also who read what."),
        _parameter("after", {"type": "integer", "minimum": 0}, "Begin behind this event."),
    ],
    "responses": {
        "200": {
            "description": "A stream that ends when either side does.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        }
    },
}


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
