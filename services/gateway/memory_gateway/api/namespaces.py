"""`/api/v1/namespaces` and `/api/v1/namespace`: the memories that there are."""

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import Field

from memory_gateway.api.answers import Deleted, Namespaces, answer
from memory_gateway.api.asking import NOT_REPEATED, Asking
from memory_gateway.api.document import errors
from memory_gateway.api.strict import StrictRoute
from memory_gateway.api.words import Body, Namespace, Parameters, WholeText
from memory_gateway.context import Context
from memory_store.contract import NamespaceInfo

MOST_FACTS = 1_000_000_000_000

router = APIRouter(route_class=StrictRoute, tags=["namespaces"])


class NamespaceAddress(Parameters):
    namespace: Namespace


class Deletion(NamespaceAddress):
    expected_facts: Annotated[int, Field(ge=0, le=MOST_FACTS), WholeText] = Field(
        description="How many facts you believe to delete; 409 if it is another number."
    )


class NewName(Body):
    name: Namespace


@router.get(
    "/namespaces",
    operation_id="list_namespaces",
    summary="List the namespaces that hold facts, as far as the token reaches",
    response_model=Namespaces,
)
async def list_namespaces(asked: Asking) -> Response:
    def question(context: Context) -> Response:
        return answer(Namespaces(namespaces=tuple(context.store.namespace_list())))

    return await asked.read(question)


@router.patch(
    "/namespace",
    operation_id="rename_namespace",
    summary="Give a namespace another name; facts, versions and events stay with it",
    dependencies=[NOT_REPEATED],
    response_model=NamespaceInfo,
    responses=errors(404, 409),
)
async def rename_namespace(
    asked: Asking, address: Annotated[NamespaceAddress, Query()], body: NewName
) -> Response:
    def question(context: Context) -> Response:
        return answer(context.store.namespace_rename(context.caller, address.namespace, body.name))

    return await asked.write(question)


@router.delete(
    "/namespace",
    operation_id="delete_namespace",
    summary="Delete all facts of a namespace; versions and events stay",
    dependencies=[NOT_REPEATED],
    response_model=Deleted,
    responses=errors(404, 409),
)
async def delete_namespace(asked: Asking, wanted: Annotated[Deletion, Query()]) -> Response:
    def question(context: Context) -> Response:
        deleted = context.store.namespace_delete(
            context.caller, wanted.namespace, wanted.expected_facts
        )
        return answer(Deleted(deleted=deleted))

    return await asked.write(question)
