"""The contract kept over shared SQL, whatever the engine."""

import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import TypeVar

from memory_store import changes, counts, events, facts, idempotency, limits, namespaces, search
from memory_store.clock import Clock, milliseconds, system_clock
from memory_store.contract import (
    Caller,
    Change,
    EventKind,
    EventPage,
    Fact,
    FactOutcome,
    FactPage,
    FactWrite,
    Internal,
    ModelIdentity,
    NamespaceInfo,
    SearchQuery,
    SearchResult,
    Stats,
    StoreError,
    SubjectVectors,
    Word,
    error_from,
)
from memory_store.engine import Engine, Session
from memory_store.events import Entry, ReadTrail
from memory_store.facts import Writing
from memory_store.limits import Limits
from memory_store.upkeep import Upkeep

logger = logging.getLogger(__name__)
Result = TypeVar("Result")


class _Deletion(Word):
    """What a deletion's idempotency key stands for."""

    namespace: str
    key: str
    expected_version: int | None


class SqlStore:
    """A `Store` on one engine, with two background threads: the read trail and the upkeep."""

    def __init__(
        self,
        engine: Engine,
        *,
        allowed: Limits | None = None,
        clock: Clock = system_clock,
        log_reads: bool = True,
    ) -> None:
        self.engine = engine
        self._limits = allowed or Limits()
        self._clock = clock
        self._reads = ReadTrail(engine) if log_reads else None
        self._upkeep = Upkeep(engine, clock)

    def close(self) -> None:
        """Writes what was accepted, the trail of reads included, and closes the database."""
        self._upkeep.close()
        if self._reads is not None:
            self._reads.close()
        self.engine.close()

    def fact_set(self, caller: Caller, write: FactWrite) -> Fact:
        limits.check_write(write, self._limits)
        return _fact(self._write(partial(self._set, caller, write)))

    def fact_set_many(self, caller: Caller, writes: Sequence[FactWrite]) -> list[FactOutcome]:
        limits.check_count("facts", writes)
        outcomes: list[FactOutcome | None] = [self._objection(write) for write in writes]
        allowed = [place for place, objection in enumerate(outcomes) if objection is None]
        jobs = [partial(self._set, caller, writes[place]) for place in allowed]
        with _own_errors():
            answers = self.engine.write_each(jobs)
        for place, answer in zip(allowed, answers, strict=True):
            outcomes[place] = _outcome(answer)
        return [outcome for outcome in outcomes if outcome is not None]

    def fact_get(
        self, caller: Caller, namespace: str, key: str, at: int | datetime | None = None
    ) -> Fact | None:
        limits.check_address(namespace, key, self._limits)
        now = self._clock()
        with self._read() as session:
            if at is None:
                fact = facts.get(session, namespace, key, now)
            elif isinstance(at, int):
                fact = facts.get_version(session, namespace, key, at)
            else:
                fact = facts.get_at(session, namespace, key, milliseconds(at))
        self._note_reads(caller, now, namespace, [(key, fact)])
        return fact

    def fact_get_many(
        self, caller: Caller, namespace: str, keys: Sequence[str]
    ) -> list[Fact | None]:
        limits.check_count("keys", keys)
        limits.check_name("namespace", namespace)
        for key in keys:
            limits.check_text("keys", key, self._limits.key, least=1)
        now = self._clock()
        with self._read() as session:
            found = [facts.get(session, namespace, key, now) for key in keys]
        self._note_reads(caller, now, namespace, list(zip(keys, found, strict=True)))
        return found

    def fact_list(
        self,
        caller: Caller,
        namespace: str,
        prefix: str = "",
        tags: Sequence[str] = (),
        limit: int = 50,
        cursor: str | None = None,
    ) -> FactPage:
        limits.check_name("namespace", namespace)
        limits.check_text("prefix", prefix, self._limits.key)
        limits.check_tags(tags, self._limits)
        limits.check_range("limit", limit, 1, limits.MAX_PAGE)
        now = self._clock()
        with self._read() as session:
            page = facts.page(session, namespace, prefix, tuple(tags), limit, cursor, now)
        detail = {"prefix": prefix, "tags": list(tags), "found": len(page.facts)}
        self._note(caller, now, namespace, "list", detail)
        return page

    def fact_delete(
        self,
        caller: Caller,
        namespace: str,
        key: str,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> Fact:
        limits.check_address(namespace, key, self._limits)
        if idempotency_key is not None:
            limits.check_name("idempotency_key", idempotency_key)
        request = _Deletion(namespace=namespace, key=key, expected_version=expected_version)
        return _fact(self._write(partial(self._delete, caller, request, idempotency_key)))

    def fact_restore(self, caller: Caller, namespace: str, key: str, version: int) -> Fact:
        limits.check_address(namespace, key, self._limits)
        return self._write(
            lambda session: facts.restore(self._writing(session, caller), namespace, key, version)
        )

    def fact_search(self, caller: Caller, query: SearchQuery) -> SearchResult:
        limits.check_query(query, self._limits)
        now = self._clock()
        with self._read() as session:
            result = search.search(self.engine, session, query, now)
        detail = {
            "query": query.text,
            "mode": result.mode,
            "found": [{"key": hit.fact.key, "score": round(hit.score, 4)} for hit in result.hits],
        }
        self._note(caller, now, query.namespace, "search", detail)
        return result

    def event_list(
        self,
        namespace: str,
        key: str | None = None,
        include_reads: bool = False,
        limit: int = 50,
        cursor: str | None = None,
    ) -> EventPage:
        limits.check_name("namespace", namespace)
        if key is not None:
            limits.check_address(namespace, key, self._limits)
        limits.check_range("limit", limit, 1, limits.MAX_PAGE)
        with self._read() as session:
            return events.page(session, namespace, key, limit, cursor, include_reads=include_reads)

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
        return self._write(lambda session: changes.take(session, owner, limit, now, until))

    def change_fail(self, owner: str, sequence: int, reason: str) -> None:
        self._write(lambda session: changes.fail(session, owner, sequence, reason))

    def change_release(self, owner: str) -> int:
        return self._write(lambda session: changes.release(session, owner))

    def vector_put(self, owner: str, model: str, vectors: Sequence[SubjectVectors]) -> int:
        limits.check_name("owner", owner)

        def put(session: Session) -> int:
            in_use = changes.model_in_use(session)
            if in_use is None or in_use.identity != model:
                return 0
            return changes.put_vectors(session, in_use, vectors)

        return self._write(put)

    def model_use(self, identity: ModelIdentity) -> int:
        return self._write(lambda session: changes.use_model(session, identity))

    def namespace_list(self) -> list[NamespaceInfo]:
        now = self._clock()
        with self._read() as session:
            return [NamespaceInfo(**row) for row in namespaces.with_facts(session, now)]

    def lock_hold(self, seconds: float) -> float:
        limits.check_range("seconds", seconds, 0, limits.MAX_HOLD_SECONDS)
        with _own_errors():
            return self.engine.lock_hold(seconds)

    def stats(self, namespace: str | None = None) -> Stats:
        if namespace is not None:
            limits.check_name("namespace", namespace)
        with self._read() as session:
            return counts.stats(self.engine, session, namespace, self._clock())

    def _set(self, caller: Caller, write: FactWrite, session: Session) -> FactOutcome:
        writing = self._writing(session, caller)
        return idempotency.once(
            writing, write.idempotency_key, write, lambda: _outcome(facts.put(writing, write))
        )

    def _delete(
        self, caller: Caller, request: _Deletion, idempotency_key: str | None, session: Session
    ) -> FactOutcome:
        writing = self._writing(session, caller)
        return idempotency.once(
            writing,
            idempotency_key,
            request,
            lambda: _outcome(
                facts.remove(writing, request.namespace, request.key, request.expected_version)
            ),
        )

    def _writing(self, session: Session, caller: Caller) -> Writing:
        return Writing(session, self.engine, caller, self._clock())

    def _objection(self, write: FactWrite) -> FactOutcome | None:
        try:
            limits.check_write(write, self._limits)
        except StoreError as error:
            return _outcome(error)
        return None

    @contextmanager
    def _read(self) -> Generator[Session]:
        with _own_errors(), self.engine.read() as session:
            yield session

    def _write(self, job: Callable[[Session], Result]) -> Result:
        with _own_errors():
            return self.engine.write(job)

    def _note_reads(
        self, caller: Caller, now: int, namespace: str, found: list[tuple[str, Fact | None]]
    ) -> None:
        if self._reads is not None:
            self._reads.add(
                Entry(
                    at=now,
                    namespace=namespace,
                    kind="get",
                    caller=caller,
                    key=key,
                    version=None if fact is None else fact.version,
                )
                for key, fact in found
            )

    def _note(
        self,
        caller: Caller,
        now: int,
        namespace: str,
        kind: EventKind,
        detail: Mapping[str, object],
    ) -> None:
        if self._reads is not None:
            self._reads.add(
                [Entry(at=now, namespace=namespace, kind=kind, caller=caller, detail=dict(detail))]
            )


@contextmanager
def _own_errors() -> Generator[None]:
    """Lets the contract's errors through; anything else goes to the log and comes out as one."""
    try:
        yield
    except StoreError as error:
        if isinstance(error, Internal):
            logger.exception("the store failed")
        raise
    except Exception as error:
        logger.exception("the store failed")
        raise Internal("the store failed; its log says why") from error


def _outcome(answer: FactOutcome | Fact | Exception) -> FactOutcome:
    if isinstance(answer, FactOutcome):
        return answer
    if isinstance(answer, Fact):
        return FactOutcome(fact=answer)
    if isinstance(answer, StoreError):
        return FactOutcome(problem=answer.problem())
    logger.error("the store failed", exc_info=answer)
    return FactOutcome(problem=Internal("the store failed; its log says why").problem())


def _fact(outcome: FactOutcome) -> Fact:
    if outcome.problem is not None:
        raise error_from(outcome.problem)
    if outcome.fact is None:
        raise AssertionError("an outcome has a fact or a problem")
    return outcome.fact
