"""The store as one principal may use it: every way into the memory leads through here."""

from collections.abc import Sequence

from memory_gateway.principals import Principal
from memory_store.contract import (
    ALL_EVENTS,
    Caller,
    EventFeed,
    EventFilter,
    EventPage,
    Fact,
    FactOutcome,
    FactPage,
    FactWrite,
    Moment,
    NamespaceInfo,
    NewToken,
    SearchQuery,
    SearchResult,
    Stats,
    Store,
    Token,
    TokenGrant,
)


class GuardedStore:
    """What clients may ask of a store. The methods are those of `Store`, and each may further
    raise `Forbidden`: `write` includes `read`, `admin` both.

    Of a namespace that is out of reach nothing is told, not even whether it is there.
    """

    def __init__(self, store: Store, principal: Principal) -> None:
        self._store = store
        self._require = principal.require
        self._reaches = principal.reaches
        self._reaches_all = principal.namespaces is None

    def fact_set(self, caller: Caller, write: FactWrite) -> Fact:
        self._require("write", write.namespace)
        return self._store.fact_set(caller, write)

    def fact_set_many(self, caller: Caller, writes: Sequence[FactWrite]) -> list[FactOutcome]:
        for namespace in {write.namespace for write in writes}:
            self._require("write", namespace)
        return self._store.fact_set_many(caller, writes)

    def fact_get(
        self, caller: Caller, namespace: str, key: str, at: int | Moment | None = None
    ) -> Fact | None:
        self._require("read", namespace)
        return self._store.fact_get(caller, namespace, key, at)

    def fact_get_many(
        self, caller: Caller, namespace: str, keys: Sequence[str]
    ) -> list[Fact | None]:
        self._require("read", namespace)
        return self._store.fact_get_many(caller, namespace, keys)

    def fact_list(
        self,
        caller: Caller,
        namespace: str,
        prefix: str = "",
        tags: Sequence[str] = (),
        limit: int = 50,
        cursor: str | None = None,
    ) -> FactPage:
        self._require("read", namespace)
        return self._store.fact_list(caller, namespace, prefix, tags, limit, cursor)

    def fact_delete(
        self,
        caller: Caller,
        namespace: str,
        key: str,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> Fact:
        self._require("write", namespace)
        return self._store.fact_delete(caller, namespace, key, expected_version, idempotency_key)

    def fact_restore(
        self,
        caller: Caller,
        namespace: str,
        key: str,
        version: int,
        idempotency_key: str | None = None,
    ) -> Fact:
        self._require("write", namespace)
        return self._store.fact_restore(caller, namespace, key, version, idempotency_key)

    def fact_search(self, caller: Caller, query: SearchQuery) -> SearchResult:
        self._require("read", query.namespace)
        return self._store.fact_search(caller, query)

    def event_list(
        self,
        namespace: str | None,
        key: str | None = None,
        include_reads: bool = False,
        limit: int = 50,
        cursor: str | None = None,
        only: EventFilter = ALL_EVENTS,
    ) -> EventPage:
        self._require("read", namespace)
        return self._store.event_list(namespace, key, include_reads, limit, cursor, only)

    def event_follow(
        self,
        after: int | None,
        namespace: str | None = None,
        limit: int = 100,
        wait_seconds: float = 0.0,
        include_reads: bool = False,
    ) -> EventFeed:
        self._require("read", namespace)
        return self._store.event_follow(after, namespace, limit, wait_seconds, include_reads)

    def namespace_list(self) -> list[NamespaceInfo]:
        """Returns the namespaces within reach."""
        return [info for info in self._store.namespace_list() if self._reaches(info.name)]

    def tag_list(self, namespace: str, prefix: str = "", limit: int = 100) -> list[str]:
        self._require("read", namespace)
        return self._store.tag_list(namespace, prefix, limit)

    def namespace_rename(self, caller: Caller, namespace: str, name: str) -> NamespaceInfo:
        for affected in (namespace, name):
            self._require("admin", affected)
        return self._store.namespace_rename(caller, namespace, name)

    def namespace_delete(self, caller: Caller, namespace: str, expected_facts: int) -> int:
        self._require("admin", namespace)
        return self._store.namespace_delete(caller, namespace, expected_facts)

    def token_create(self, caller: Caller, grant: TokenGrant) -> NewToken:
        self._require("admin", None)
        return self._store.token_create(caller, grant)

    def token_rotate(self, caller: Caller, name: str, overlap_seconds: float = 0.0) -> NewToken:
        self._require("admin", None)
        return self._store.token_rotate(caller, name, overlap_seconds)

    def token_revoke(self, caller: Caller, name: str) -> Token:
        self._require("admin", None)
        return self._store.token_revoke(caller, name)

    def token_list(self) -> list[Token]:
        self._require("admin", None)
        return self._store.token_list()

    def lock_hold(self, seconds: float) -> float:
        self._require("write", None)
        return self._store.lock_hold(seconds)

    def stats(self, namespace: str | None = None) -> Stats:
        """Returns the store's answer, with the number of the namespaces within reach."""
        self._require("read", namespace)
        stats = self._store.stats(namespace)
        if self._reaches_all:
            return stats
        return stats.model_copy(update={"namespaces": len(self.namespace_list())})
