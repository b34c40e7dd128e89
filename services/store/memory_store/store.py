"""The contract kept over shared SQL, whatever the engine."""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from datetime import datetime
from functools import partial

from memory_store import events, facts, idempotency, limits, search
from memory_store.administration import AdministrationMethods
from memory_store.base import own_errors
from memory_store.clock import milliseconds
from memory_store.contract import (
    ALL_EVENTS,
    Caller,
    Conflict,
    EventFeed,
    EventFilter,
    EventPage,
    Fact,
    FactOutcome,
    FactPage,
    FactWrite,
    Internal,
    SearchQuery,
    SearchResult,
    StoreError,
    Word,
    fact_of,
)
from memory_store.embedding import EmbeddingMethods
from memory_store.engine import Question, Session
from memory_store.events import Entry
from memory_store.following import Follower

logger = logging.getLogger(__name__)


class _Deletion(Word):
    """What a deletion's idempotency key stands for."""

    namespace: str
    key: str
    expected_version: int | None


class _Restoration(Word):
    """What a restoration's idempotency key stands for."""

    namespace: str
    key: str
    version: int


class SqlStore(EmbeddingMethods, AdministrationMethods):
    """A `Store` on one engine."""

    def fact_set(self, caller: Caller, write: FactWrite) -> Fact:
        limits.check_write(write, self._limits)
        return fact_of(self._write(*self._setting(caller, write)))

    def fact_set_soon(self, caller: Caller, write: FactWrite) -> Future[FactOutcome]:
        """As `fact_set`, for who has no thread to wait in: the future tells what became of it.

        What is wrong with the write itself is raised at once.
        """
        limits.check_write(write, self._limits)
        return self.engine.write_soon(*self._setting(caller, write))

    def fact_set_many(self, caller: Caller, writes: Sequence[FactWrite]) -> list[FactOutcome]:
        limits.check_count("facts", writes)
        outcomes: list[FactOutcome | None] = [self._objection(write) for write in writes]
        allowed = [place for place, objection in enumerate(outcomes) if objection is None]
        jobs = [partial(self._set, caller, writes[place]) for place in allowed]
        with own_errors():
            answers = self.engine.write_each(
                jobs,
                locks=[_locks(caller, writes[place]) for place in allowed],
                ahead=[_standing(writes[place]) for place in allowed],
            )
        for place, answer in zip(allowed, answers, strict=True):
            outcomes[place] = _outcome(answer)
        return [outcome for outcome in outcomes if outcome is not None]

    def fact_get(
        self, caller: Caller, namespace: str, key: str, at: int | datetime | None = None
    ) -> Fact | None:
        limits.check_address(namespace, key, self._limits)
        now = self._clock()
        with own_errors():
            if at is None:
                fact = facts.get(self.engine, namespace, key, now)
            elif isinstance(at, int):
                fact = facts.get_version(self.engine, namespace, key, at)
            else:
                fact = facts.get_at(self.engine, namespace, key, milliseconds(at))
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
        limits.check_retry_key(idempotency_key)
        request = _Deletion(namespace=namespace, key=key, expected_version=expected_version)
        remove = partial(
            facts.remove, namespace=namespace, key=key, expected_version=expected_version
        )
        return fact_of(
            self._write(
                partial(self._once, caller, idempotency_key, request, remove),
                locks=(*facts.locks(namespace, key), *idempotency.locks(caller, idempotency_key)),
                ahead=[facts.standing(namespace, key)],
            )
        )

    def fact_restore(
        self,
        caller: Caller,
        namespace: str,
        key: str,
        version: int,
        idempotency_key: str | None = None,
    ) -> Fact:
        limits.check_address(namespace, key, self._limits)
        limits.check_retry_key(idempotency_key)
        request = _Restoration(namespace=namespace, key=key, version=version)
        restore = partial(facts.restore, namespace=namespace, key=key, version=version)
        return fact_of(
            self._write(
                partial(self._once, caller, idempotency_key, request, restore),
                locks=(*facts.locks(namespace, key), *idempotency.locks(caller, idempotency_key)),
            )
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
        namespace: str | None,
        key: str | None = None,
        include_reads: bool = False,
        limit: int = 50,
        cursor: str | None = None,
        only: EventFilter = ALL_EVENTS,
    ) -> EventPage:
        if namespace is not None:
            limits.check_name("namespace", namespace)
        if key is not None:
            limits.check_text("key", key, self._limits.key, least=1)
        limits.check_range("limit", limit, 1, limits.MAX_PAGE)
        limits.check_filter(only)
        with self._read() as session:
            return events.page(
                session, namespace, key, limit, cursor, include_reads=include_reads, only=only
            )

    def event_follow(
        self,
        after: int | None,
        namespace: str | None = None,
        limit: int = 100,
        wait_seconds: float = 0.0,
        include_reads: bool = False,
    ) -> EventFeed:
        if namespace is not None:
            limits.check_name("namespace", namespace)
        limits.check_range("limit", limit, 1, limits.MAX_PAGE)
        limits.check_range("wait_seconds", wait_seconds, 0, limits.MAX_WAIT_SECONDS)
        if after is None:
            with self._read() as session:
                return EventFeed(events=(), after=self.engine.last_settled_event(session))
        limits.check_range("after", after, 0, facts.MAX_VERSION)
        follower = Follower(
            self.engine, self._closing, namespace, limit, include_reads=include_reads
        )
        with own_errors():
            return follower.feed(after, wait_seconds)

    def _setting(
        self, caller: Caller, write: FactWrite
    ) -> tuple[Callable[[Session], FactOutcome], tuple[str, ...], list[Question]]:
        """The job, its locks, and what it asks ahead."""
        return partial(self._set, caller, write), _locks(caller, write), [_standing(write)]

    def _set(self, caller: Caller, write: FactWrite, session: Session) -> FactOutcome:
        apply = partial(facts.put, write=write)
        return self._once(caller, write.idempotency_key, write, apply, session)

    def _once(
        self,
        caller: Caller,
        idempotency_key: str | None,
        request: Word,
        apply: Callable[[facts.Writing], Fact | Conflict],
        session: Session,
    ) -> FactOutcome:
        writing = self._writing(session, caller)
        return idempotency.once(writing, idempotency_key, request, lambda: _outcome(apply(writing)))

    def _objection(self, write: FactWrite) -> FactOutcome | None:
        try:
            limits.check_write(write, self._limits)
        except StoreError as error:
            return _outcome(error)
        return None

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


def _locks(caller: Caller, write: FactWrite) -> tuple[str, ...]:
    return (
        *facts.locks(write.namespace, write.key),
        *idempotency.locks(caller, write.idempotency_key),
    )


def _standing(write: FactWrite) -> Question:
    return facts.standing(write.namespace, write.key)


def _outcome(answer: FactOutcome | Fact | Exception) -> FactOutcome:
    if isinstance(answer, FactOutcome):
        return answer
    if isinstance(answer, Fact):
        return FactOutcome(fact=answer)
    if isinstance(answer, StoreError):
        return FactOutcome(problem=answer.problem())
    logger.error("the store failed", exc_info=answer)
    return FactOutcome(problem=Internal("the store failed; its log says why").problem())
