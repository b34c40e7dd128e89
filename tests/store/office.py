"""Where the suite makes tokens and shows their secrets, as an administrator."""

import hashlib
from dataclasses import dataclass

from memory_store.contract import Caller, NewToken, Store, Token, TokenGrant

ADMIN = Caller(
    principal="installation",
    source_client="operator",
    self_reported=False,
    claimed_client="somebody else",
    request_id="req-1",
)


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


@dataclass
class Office:
    store: Store

    def create(self, name="ci", scopes=("read",), **fields) -> NewToken:
        grant = TokenGrant(name=name, scopes=scopes, **fields)
        return self.store.token_create(ADMIN, grant)

    def rotate(self, name="ci", *overlap: float) -> NewToken:
        return self.store.token_rotate(ADMIN, name, *overlap)

    def revoke(self, name="ci") -> Token:
        return self.store.token_revoke(ADMIN, name)

    def shown(self, secret: str) -> Token | None:
        return self.store.token_verify(digest_of(secret))

    def listed(self, name="ci") -> Token:
        (token,) = [token for token in self.store.token_list() if token.name == name]
        return token
