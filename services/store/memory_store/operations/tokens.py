"""Tokens made, listed, rotated and revoked by whoever has the store itself."""

from memory_store.contract import Caller, Store, Token, TokenGrant
from memory_store.operations.report import Report


class _Answer(Report):
    def sentences(self) -> list[str]:
        """None: the command line tells of tokens alike whether a server or the store answers."""
        return []


class Made(_Answer):
    """A token with its secret, which is told this once."""

    token: Token
    secret: str


class Known(_Answer):
    """All tokens ever made."""

    tokens: tuple[Token, ...]


class Revoked(_Answer):
    token: Token


def create(store: Store, caller: Caller, grant: TokenGrant) -> Made:
    made = store.token_create(caller, grant)
    return Made(token=made.token, secret=made.secret)


def rotate(store: Store, caller: Caller, name: str, overlap_seconds: float) -> Made:
    made = store.token_rotate(caller, name, overlap_seconds)
    return Made(token=made.token, secret=made.secret)


def revoke(store: Store, caller: Caller, name: str) -> Revoked:
    return Revoked(token=store.token_revoke(caller, name))


def every(store: Store) -> Known:
    return Known(tokens=tuple(store.token_list()))
