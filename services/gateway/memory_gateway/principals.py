"""Who a caller proved to be, and what that lets it do."""

from dataclasses import dataclass
from typing import Any

from memory_store.contract import Caller, Forbidden, Token, TokenScope

PRINCIPAL = "memory_principal"
"""Where a scope of HTTP has its principal, once that is proved."""
ALL_SCOPES: frozenset[TokenScope] = frozenset(("read", "write", "admin"))
INCLUDED: dict[TokenScope, frozenset[TokenScope]] = {
    "read": frozenset(("read",)),
    "write": frozenset(("read", "write")),
    "admin": ALL_SCOPES,
}


@dataclass(frozen=True)
class Principal:
    """Who a token proves. `client` is the token's own client name, None if it has none;
    `namespaces` None means all."""

    name: str
    client: str | None = None
    scopes: frozenset[TokenScope] = ALL_SCOPES
    namespaces: frozenset[str] | None = None

    def reaches(self, namespace: str) -> bool:
        return self.namespaces is None or namespace in self.namespaces

    def require(self, scope: TokenScope, namespace: str | None) -> None:
        """Raises `Forbidden` unless the scope is held for the namespace; None stands for all."""
        if scope not in self.scopes:
            held = ", ".join(sorted(self.scopes))
            raise Forbidden(f"this needs the scope `{scope}`; the token's scopes are: {held}")
        if self.namespaces is None or namespace in self.namespaces:
            return
        reached = ", ".join(sorted(self.namespaces))
        raise Forbidden(
            f"the token does not reach this namespace; it reaches: {reached}"
            if namespace is not None
            else f"this is about all namespaces, and the token reaches only: {reached}",
            argument="namespace",
        )


LOCAL = Principal("local")
INSTALLATION = Principal("installation")


def principal_of_token(token: Token) -> Principal:
    """The prefix keeps a token from passing for the installation, whatever its name."""
    return Principal(
        name=f"token:{token.name}",
        client=token.name,
        scopes=frozenset[TokenScope]().union(*(INCLUDED[scope] for scope in token.scopes)),
        namespaces=None if token.namespaces is None else frozenset(token.namespaces),
    )


def principal_of(request: Any) -> Principal:
    """The principal of the HTTP request that a call came with; without one the call is local."""
    return LOCAL if request is None else request.scope[PRINCIPAL]


@dataclass(frozen=True)
class Identity:
    """Who calls: what that lets it do, and how the trail names it."""

    principal: Principal
    caller: Caller
