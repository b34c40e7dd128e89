"""`/api/v1/tokens`: who may come in. The names stand in the path, so they hold no slash."""

from typing import Annotated

from fastapi import APIRouter, Path, Response
from pydantic import Field

from memory_gateway.api.answers import Tokens, answer
from memory_gateway.api.asking import NOT_REPEATED, Asking
from memory_gateway.api.document import errors
from memory_gateway.api.strict import StrictRoute
from memory_gateway.api.words import MOST_AT_ONCE, NAME, Body, Future, Namespace, TokenName
from memory_gateway.context import Context
from memory_store.contract import NewToken, Token, TokenGrant, TokenScope

MOST_OVERLAP_SECONDS = 30 * 24 * 3600

router = APIRouter(route_class=StrictRoute, tags=["tokens"])

Named = Annotated[str, Path(json_schema_extra={"pattern": NAME, "maxLength": 128})]


class Grant(Body):
    """What a token is made for: `write` includes `read`, `admin` both."""

    name: TokenName
    scopes: list[TokenScope] = Field(min_length=1, max_length=3)
    namespaces: list[Namespace] | None = Field(
        default=None, min_length=1, max_length=MOST_AT_ONCE, description="Default: all of them."
    )
    expires_at: Future | None = Field(default=None, description="A time to come; default: never.")


class Rotation(Body):
    overlap_seconds: float = Field(
        default=0, ge=0, le=MOST_OVERLAP_SECONDS, description="How long the old secret stays good."
    )


@router.get(
    "/tokens",
    operation_id="list_tokens",
    summary="List all tokens ever made, without their secrets",
    response_model=Tokens,
)
async def list_tokens(asked: Asking) -> Response:
    def question(context: Context) -> Response:
        return answer(Tokens(tokens=tuple(context.store.token_list())))

    return await asked.read(question)


@router.post(
    "/tokens",
    operation_id="create_token",
    summary="Make a token; its secret is told this once",
    dependencies=[NOT_REPEATED],
    status_code=201,
    response_model=NewToken,
    responses=errors(409),
)
async def create_token(asked: Asking, body: Grant) -> Response:
    grant = TokenGrant(
        name=body.name,
        scopes=tuple(body.scopes),
        namespaces=None if body.namespaces is None else tuple(body.namespaces),
        expires_at=body.expires_at,
    )

    def question(context: Context) -> Response:
        return answer(context.store.token_create(context.caller, grant), 201)

    return await asked.write(question)


@router.delete(
    "/tokens/{name}",
    operation_id="revoke_token",
    summary="End a token for good",
    dependencies=[NOT_REPEATED],
    response_model=Token,
    responses=errors(404),
)
async def revoke_token(asked: Asking, name: Named) -> Response:
    def question(context: Context) -> Response:
        return answer(context.store.token_revoke(context.caller, name))

    return await asked.write(question)


@router.post(
    "/tokens/{name}/rotate",
    operation_id="rotate_token",
    summary="Give a token a new secret",
    dependencies=[NOT_REPEATED],
    response_model=NewToken,
    responses=errors(404),
)
async def rotate_token(asked: Asking, name: Named, body: Rotation | None = None) -> Response:
    overlap = body.overlap_seconds if body else 0.0

    def question(context: Context) -> Response:
        return answer(context.store.token_rotate(context.caller, name, overlap))

    return await asked.write(question)
