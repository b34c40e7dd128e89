"""What the tools answer, kept under the size that clients accept.

A fact asked for by its key has its value whole; that value alone, if its JSON is longer than the
limit, may take an answer beyond it. Everything else gives way: metadata and tags, and among many
first the longest values, which are marked, or the answer ends early. What is left out is counted
or has a cursor.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from pydantic import BaseModel, ConfigDict
from pydantic_core import to_json

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
ENVELOPE = 5_000
"""Room for what stands around the items; a cursor may hold a key, escaped."""
ROOM = LIMIT - ENVELOPE
PART_LIMITS = (8_000, 4_000, 2_000, 1_000, 500, 200, 50)
MESSAGE_LENGTH = 200

Whole = TypeVar("Whole", bound=BaseModel)
Item = TypeVar("Item", bound=BaseModel)


class Result(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ShortenedFact(Fact):
    """`value_cut` marks a value that goes on, `metadata_cut` left-out tags and metadata."""

    value_cut: bool = False
    metadata_cut: bool = False


class FactResult(Result):
    fact: ShortenedFact


class FoundResult(Result):
    found: bool
    fact: ShortenedFact | None


class RemovedResult(Result):
    removed: ShortenedFact


class ListResult(Result):
    facts: tuple[ShortenedFact, ...]
    next_cursor: str | None = None


class FactsResult(Result):
    facts: tuple[ShortenedFact | None, ...]
    left_out: int = 0


class HitResult(Result):
    fact: ShortenedFact
    score: float
    cosine: float | None = None
    lexical: float | None = None


class HitsResult(Result):
    mode: SearchMode
    hits: tuple[HitResult, ...]
    degraded: str | None = None
    pending: int = 0
    left_out: int = 0


class OutcomeResult(Result):
    """`version` stands for a fact where the facts do not fit."""

    fact: ShortenedFact | None = None
    version: int | None = None
    problem: Problem | None = None


class OutcomesResult(Result):
    outcomes: tuple[OutcomeResult, ...]


class ShortenedEvent(Event):
    value_cut: bool = False
    detail_cut: bool = False


class EventsResult(Result):
    events: tuple[ShortenedEvent, ...]
    next_cursor: str | None = None


class StatsResult(Stats):
    """`degraded` says why search by meaning cannot be had now, if it is known that it cannot."""

    server_version: str
    degraded: str | None = None


class HeldResult(Result):
    held_seconds: float


def whole_fact(fact: Fact) -> ShortenedFact:
    """The fact with its whole value; without tags and metadata if they are too much beside it."""
    whole = ShortenedFact.model_validate(dict(fact))
    if size(whole) <= ROOM:
        return whole
    return whole.model_copy(update={"tags": (), "metadata": {}, "metadata_cut": True})


def list_result(fetch: Callable[[int], FactPage], limit: int) -> ListResult:
    page = fetch(limit)
    while (kept := fitting(page.facts)) < len(page.facts):
        page = fetch(kept)
    facts = shortened(page.facts, shorten_fact)
    return ListResult(facts=tuple(facts), next_cursor=page.next_cursor)


def events_result(fetch: Callable[[int], EventPage], limit: int) -> EventsResult:
    page = fetch(limit)
    events = shortened(page.events, shorten_event)
    while (kept := fitting(events)) < len(events):
        page = fetch(kept)
        events = shortened(page.events, shorten_event)
    return EventsResult(events=tuple(events), next_cursor=page.next_cursor)


def facts_result(facts: Sequence[Fact | None]) -> FactsResult:
    """The facts from the first on that fit, at least one of them."""
    kept = fitting(facts)
    told = shortened([fact for fact in facts[:kept] if fact], shorten_fact)
    rest = iter(told)
    return FactsResult(
        facts=tuple(fact and next(rest) for fact in facts[:kept]), left_out=len(facts) - kept
    )


def hits_result(result: SearchResult, degraded: str | None) -> HitsResult:
    hits = shortened(result.hits, shorten_hit)
    kept = fitting(hits)
    return HitsResult(
        mode=result.mode,
        hits=tuple(hits[:kept]),
        degraded=degraded,
        pending=result.pending,
        left_out=len(hits) - kept,
    )


def outcomes_result(outcomes: Sequence[FactOutcome]) -> OutcomesResult:
    told = shortened(outcomes, shorten_outcome)
    if fitting(told) < len(told):
        told = [brief_outcome(outcome) for outcome in outcomes]
    return OutcomesResult(outcomes=tuple(told))


def size(item: BaseModel | None) -> int:
    return len("null" if item is None else item.model_dump_json()) + 1


def fitting(items: Sequence[BaseModel | None]) -> int:
    """How many of the first items fit into one result: at least one."""
    room = ROOM
    for count, item in enumerate(items):
        room -= size(item)
        if room < 0:
            return max(count, 1)
    return len(items)


def shortened(whole: Sequence[Whole], shorten: Callable[[Whole, int], Item]) -> list[Item]:
    """The items whole, or with their longest parts cut as far as it takes."""
    told = [shorten(item, LIMIT) for item in whole]
    for limit in PART_LIMITS:
        if sum(map(size, told)) <= ROOM:
            break
        told = [shorten(item, limit) for item in whole]
    return told


def json_length(value: object) -> int:
    return len(to_json(value, inf_nan_mode="constants").decode()) - 2  # without what encloses it


def clip(text: str, limit: int) -> str:
    """The beginning of a text that takes at most `limit` characters as JSON."""
    text = text[:limit]
    while (length := json_length(text)) > limit:
        text = text[: min(len(text) * limit // length, len(text) - 1)]
    return text


def shorten_fact(fact: Fact, limit: int) -> ShortenedFact:
    value = clip(fact.value, limit)
    changed: dict[str, object] = {"value": value, "value_cut": value != fact.value}
    if json_length([fact.tags, fact.metadata]) > limit:
        changed |= {"tags": (), "metadata": {}, "metadata_cut": True}
    return ShortenedFact.model_validate(dict(fact) | changed)


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


def brief_outcome(outcome: FactOutcome) -> OutcomeResult:
    if outcome.problem is None:
        return OutcomeResult(version=outcome.fact and outcome.fact.version)
    message = clip(outcome.problem.message, MESSAGE_LENGTH)
    brief = {"message": message, "current": None}
    return OutcomeResult(problem=outcome.problem.model_copy(update=brief))


def shorten_event(event: Event, limit: int) -> ShortenedEvent:
    values = {name: getattr(event, name) for name in ("value_before", "value_after")}
    cut = {name: value and clip(value, limit) for name, value in values.items()}
    changed: dict[str, object] = {**cut, "value_cut": cut != values}
    if json_length(event.detail) > limit:
        changed |= {"detail": {}, "detail_cut": True}
    return ShortenedEvent.model_validate(dict(event) | changed)
