"""The part of the store that embedders talk to."""

from collections.abc import Sequence

from memory_store import changes, limits
from memory_store.base import StoreBase
from memory_store.contract import Change, ModelIdentity, SubjectVectors
from memory_store.engine import Session


class EmbeddingMethods(StoreBase):
    def change_take(
        self, owner: str, model: str, limit: int = 32, lease_seconds: float = 30.0
    ) -> list[Change]:
        limits.check_name("owner", owner)
        limits.check_range("limit", limit, 1, limits.MAX_PAGE)
        limits.check_range("lease_seconds", lease_seconds, 0, limits.MAX_LEASE_SECONDS)
        now = self._clock()
        with self._read() as session:
            in_use = changes.model_in_use(session)
            if in_use is None or in_use.identity != model or not changes.waiting(session, now):
                return []
        until = now + round(lease_seconds * 1000)
        return self._write(
            lambda session: changes.take(session, owner, limit, now, until), locks=("changes",)
        )

    def change_fail(self, owner: str, sequence: int, reason: str) -> None:
        self._write(lambda session: changes.fail(session, owner, sequence, reason), locks=())

    def change_release(self, owner: str) -> int:
        return self._write(lambda session: changes.release(session, owner), locks=())

    def vector_put(self, owner: str, model: str, vectors: Sequence[SubjectVectors]) -> int:
        limits.check_name("owner", owner)

        def put(session: Session) -> int:
            in_use = changes.model_in_use(session)
            if in_use is None or in_use.identity != model:
                return 0
            return changes.put_vectors(session, in_use, vectors)

        return self._write(put, locks=())

    def model_use(self, identity: ModelIdentity) -> int:
        return self._write(lambda session: changes.use_model(session, identity))
