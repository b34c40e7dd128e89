"""What the tools answer, kept under the size that clients accept.

A fact asked for by its key is always whole. Among many, first the longest values are shortened
and marked, or the page ends early; what is left out is named or has a cursor.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from pydantic import BaseModel, ConfigDict

from memory_store.contract import (
    Event,
    EventPage,
    Fact,
    FactOutcome,
    FactPage,
    Problem,
    SearchHit,
    SearchMode,
    SearchResult,
    Stats,
)

LIMIT = 40_000
ENVELOPE = 400
VALUE_LIMITS = (8_000, 4_000, 2_000, 1_000, 500, 200)

Whole = TypeVar("Whole", bound=BaseModel)
Item = TypeVar("Item", bound=BaseModel)


class Result(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FactResult(Result):
    fact: Fact


class FoundResult(Result):
    found: bool
    fact: Fact | None


class RemovedResult(Result):
    removed: Fact


class ListResult(Result):
    facts: tuple[Fact, ...]
    next_cursor: str | None = None


class FactsResult(Result):
    facts: tuple[Fact | None, ...]
    left_out: tuple[str, ...] = ()


class ShortenedFact(Fact):
    value_cut: bool = False


class HitResult(Result):
    fact: ShortenedFact
    score: float
    cosine: float | None = None
    lexical: float | None = None


class HitsResult(Result):
    mode: SearchMode
    hits: tuple[HitResult, ...]
    degraded: str | None = None
    left_out: int = 0


class OutcomeResult(Result):
    fact: ShortenedFact | None = None
    problem: Problem | None = None


class OutcomesResult(Result):
    outcomes: tuple[OutcomeResult, ...]


class ShortenedEvent(Event):
    value_cut: bool = False


class EventsResult(Result):
    events: tuple[ShortenedEvent, ...]
    next_cursor: str | None = None


class StatsResult(Stats):
    server_version: str


class HeldResult(Result):
    held_seconds: float


def list_result(fetch: Callable[[int], FactPage], limit: int) -> ListResult:
    page = fetch(limit)
    while (kept := fitting(page.facts)) < len(page.facts):
        page = fetch(kept)
    return ListResult(facts=page.facts, next_cursor=page.next_cursor)


def events_result(fetch: Callable[[int], EventPage], limit: int) -> EventsResult:
    page = fetch(limit)
    events = _shortened(page.events, shorten_event)
    while (kept := fitting(events)) < len(events):
        page = fetch(kept)
        events = _shortened(page.events, shorten_event)
    return EventsResult(events=tuple(events), next_cursor=page.next_cursor)


def facts_result(keys: Sequence[str], facts: Sequence[Fact | None]) -> FactsResult:
    room = LIMIT - ENVELOPE - sum(len(key) + 8 for key in keys)
    kept: list[Fact | None] = []
    left_out: list[str] = []
    for key, fact in zip(keys, facts, strict=True):
        room -= size(fact) if fact else 0
        kept.append(fact if room >= 0 else None)
        if fact and room < 0:
            left_out.append(key)
    return FactsResult(facts=tuple(kept), left_out=tuple(left_out))


def hits_result(result: SearchResult, degraded: str | None) -> HitsResult:
    hits = _shortened(result.hits, shorten_hit)
    kept = fitting(hits)
    return HitsResult(
        mode=result.mode, hits=tuple(hits[:kept]), degraded=degraded, left_out=len(hits) - kept
    )


def outcomes_result(outcomes: Sequence[FactOutcome]) -> OutcomesResult:
    return OutcomesResult(outcomes=tuple(_shortened(outcomes, shorten_outcome)))


def size(item: BaseModel) -> int:
    return len(item.model_dump_json()) + 1


def fitting(items: Sequence[BaseModel]) -> int:
    """How many of the first items fit into one result: at least one."""
    room = LIMIT - ENVELOPE
    for count, item in enumerate(items):
        room -= size(item)
        if room < 0:
            return max(count, 1)
    return len(items)


def _shortened(whole: Sequence[Whole], shorten: Callable[[Whole, int], Item]) -> list[Item]:
    """The items with their values whole, or with the longest cut as far as it takes."""
    shortened = [shorten(item, LIMIT) for item in whole]
    for limit in VALUE_LIMITS:
        if fitting(shortened) == len(shortened):
            break
        shortened = [shorten(item, limit) for item in whole]
    return shortened


def shorten_fact(fact: Fact, limit: int) -> ShortenedFact:
    cut = len(fact.value) > limit
    return ShortenedFact.model_validate(
        dict(fact) | {"value": fact.value[:limit], "value_cut": cut}
    )


def shorten_hit(hit: SearchHit, limit: int) -> HitResult:
    return HitResult(
        fact=shorten_fact(hit.fact, limit),
        score=round(hit.score, 4),
        cosine=None if hit.cosine is None else round(hit.cosine, 4),
        lexical=None if hit.lexical is None else round(hit.lexical, 4),
    )


def shorten_outcome(outcome: FactOutcome, limit: int) -> OutcomeResult:
    problem = outcome.problem
    if problem and problem.current:
        current = shorten_fact(problem.current, limit)
        problem = problem.model_copy(update={"current": current})
    fact = shorten_fact(outcome.fact, limit) if outcome.fact else None
    return OutcomeResult(fact=fact, problem=problem)


def shorten_event(event: Event, limit: int) -> ShortenedEvent:
    before, after = event.value_before or "", event.value_after or ""
    if max(len(before), len(after)) <= limit:
        return ShortenedEvent.model_validate(dict(event))
    values = {
        "value_before": None if event.value_before is None else before[:limit],
        "value_after": None if event.value_after is None else after[:limit],
    }
    return ShortenedEvent.model_validate(dict(event) | values | {"value_cut": True})
