"""What tools, prompts and the HTTP interface ask of the memory alike."""

from collections.abc import Sequence

from memory_embedder.contract import EmbedderUnavailable
from memory_gateway.context import Context
from memory_store.contract import FactOutcome, FactWrite, SearchQuery, SearchResult

NO_VECTORS = "No fact has a vector of the model in use yet, so the ranking is by words alone."


def search(context: Context, query: SearchQuery) -> tuple[SearchResult, str | None]:
    """Returns what was found and, if meaning was asked for and not used, why."""
    query, degraded = _with_vector(context, query)
    found = context.store.fact_search(context.caller, query)
    if query.vector is not None and found.mode == "lexical":
        degraded = NO_VECTORS
    return found, degraded


def _with_vector(context: Context, query: SearchQuery) -> tuple[SearchQuery, str | None]:
    if query.mode == "lexical":
        return query, None
    try:
        embedded = context.embedder.query(query.text)
    except EmbedderUnavailable as unavailable:
        return query, str(unavailable)
    return query.model_copy(update=embedded._asdict()), None


def set_many(context: Context, writes: Sequence[FactWrite]) -> list[FactOutcome]:
    """Stores the writes, each on its own, and has those heard of that were done."""
    outcomes = context.store.fact_set_many(context.caller, writes)
    for outcome in outcomes:
        if outcome.fact:
            context.wrote(outcome.fact)
    return outcomes
