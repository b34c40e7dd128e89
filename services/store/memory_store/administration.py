"""The part of the store that is about the whole memory: namespaces, tokens, counts, the lock."""

from memory_store import counts, events, facts, limits, namespaces, tags, tokens
from memory_store.base import StoreBase, own_errors
from memory_store.contract import (
    Caller,
    NamespaceInfo,
    NewToken,
    Stats,
    Token,
    TokenGrant,
)
from memory_store.engine import Session
from memory_store.events import Entry


class AdministrationMethods(StoreBase):
    def namespace_list(self) -> list[NamespaceInfo]:
        now = self._clock()
        with self._read() as session:
            return [NamespaceInfo(**row) for row in namespaces.with_facts(session, now)]

    def tag_list(self, namespace: str, prefix: str = "", limit: int = 100) -> list[str]:
        limits.check_name("namespace", namespace)
        limits.check_text("prefix", prefix, limits.MAX_NAME_LENGTH)
        limits.check_range("limit", limit, 1, limits.MAX_PAGE)
        with self._read() as session:
            return tags.beginning_with(session, namespace, prefix, limit, self._clock())

    def lock_hold(self, seconds: float) -> float:
        limits.check_range("seconds", seconds, 0, limits.MAX_HOLD_SECONDS)
        with own_errors():
            return self.engine.lock_hold(seconds)

    def stats(self, namespace: str | None = None) -> Stats:
        if namespace is not None:
            limits.check_name("namespace", namespace)
        with self._read() as session:
            return counts.stats(self.engine, session, namespace, self._clock())

    def namespace_rename(self, caller: Caller, namespace: str, name: str) -> NamespaceInfo:
        limits.check_name("namespace", namespace)
        limits.check_name("name", name)
        now = self._clock()

        def rename(session: Session) -> NamespaceInfo:
            namespaces.rename(session, namespace, name)
            events.append(
                session,
                Entry(
                    at=now,
                    namespace=name,
                    kind="rename",
                    caller=caller,
                    detail={"from": namespace, "to": name},
                ),
            )
            return NamespaceInfo(name=name, facts=namespaces.count_facts(session, name, now))

        return self._write(rename)

    def namespace_delete(self, caller: Caller, namespace: str, expected_facts: int) -> int:
        limits.check_name("namespace", namespace)
        return self._write(
            lambda session: facts.remove_all(
                self._writing(session, caller), namespace, expected_facts
            ),
            locks=(namespaces.lock(namespace),),
        )

    def token_create(self, caller: Caller, grant: TokenGrant) -> NewToken:
        limits.check_grant(grant, self._clock())
        return self._write(lambda session: tokens.create(self._writing(session, caller), grant))

    def token_rotate(self, caller: Caller, name: str, overlap_seconds: float = 0.0) -> NewToken:
        limits.check_name("name", name)
        limits.check_range("overlap_seconds", overlap_seconds, 0, limits.MAX_OVERLAP_SECONDS)
        return self._write(
            lambda session: tokens.rotate(self._writing(session, caller), name, overlap_seconds)
        )

    def token_revoke(self, caller: Caller, name: str) -> Token:
        limits.check_name("name", name)
        return self._write(lambda session: tokens.revoke(self._writing(session, caller), name))

    def token_list(self) -> list[Token]:
        with self._read() as session:
            return tokens.every(session)

    def token_verify(self, digest: str) -> Token | None:
        limits.check_name("digest", digest)
        now = self._clock()
        with own_errors():
            token = tokens.verify(self.engine, digest, now)
        if token is not None:
            self._uses.note(token.name, now)
        return token
