"""The tools over facts: what a model may ask of the memory and how it is told about it."""

from datetime import UTC, datetime
from functools import partial

from memory_gateway import questions
from memory_gateway.context import Context
from memory_gateway.tools import results
from memory_gateway.tools.fact_arguments import (
    HIGHEST_VERSION,
    DeleteArguments,
    GetArguments,
    GetManyArguments,
    HistoryArguments,
    HoldArguments,
    ListArguments,
    RestoreArguments,
    SearchArguments,
    SetArguments,
    SetManyArguments,
    StatsArguments,
    Write,
)
from memory_gateway.tools.registry import AnyTool, Tool
from memory_gateway.version import VERSION
from memory_store.contract import FactWrite, Invalid, SearchQuery


def memory_set(context: Context, arguments: SetArguments) -> results.FactResult:
    write = _fact_write(arguments.namespace, arguments)
    fact = context.store.fact_set(context.caller, write)
    return results.FactResult(fact=results.whole_fact(context.wrote(fact)))


def memory_set_many(context: Context, arguments: SetManyArguments) -> results.OutcomesResult:
    writes = [_fact_write(arguments.namespace, write) for write in arguments.writes]
    return results.outcomes_result(questions.set_many(context, writes))


def _fact_write(namespace: str, write: Write | SetArguments) -> FactWrite:
    given = write.model_dump(exclude={"namespace", "client_id"})
    tags = None if write.tags is None else tuple(write.tags)
    return FactWrite.model_validate(given | {"namespace": namespace, "tags": tags})


def memory_get(context: Context, arguments: GetArguments) -> results.FoundResult:
    fact = context.store.fact_get(
        context.caller, arguments.namespace, arguments.key, _moment(arguments.at)
    )
    return results.FoundResult(found=fact is not None, fact=fact and results.whole_fact(fact))


def _moment(at: int | str | None) -> int | datetime | None:
    """A version or a time; a time without an offset is UTC."""
    if at is None:
        return None
    if isinstance(at, int):
        return max(0, min(at, HIGHEST_VERSION))
    if at.isascii() and at.isdigit():
        return min(int(at[:12]), HIGHEST_VERSION)
    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        raise Invalid(
            "`at` must be a version number or an ISO 8601 time such as 2026-01-31T12:00:00Z.",
            argument="at",
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def memory_get_many(context: Context, arguments: GetManyArguments) -> results.FactsResult:
    facts = context.store.fact_get_many(context.caller, arguments.namespace, arguments.keys)
    return results.facts_result(facts)


def memory_list(context: Context, arguments: ListArguments) -> results.ListResult:
    fetch = partial(
        context.store.fact_list,
        context.caller,
        arguments.namespace,
        prefix=arguments.prefix,
        tags=arguments.tags,
        cursor=arguments.cursor,
    )
    return results.list_result(lambda limit: fetch(limit=limit), arguments.limit)


def memory_delete(context: Context, arguments: DeleteArguments) -> results.RemovedResult:
    removed = context.store.fact_delete(
        context.caller,
        arguments.namespace,
        arguments.key,
        arguments.expected_version,
        arguments.idempotency_key,
    )
    return results.RemovedResult(removed=results.whole_fact(context.wrote(removed)))


def memory_search(context: Context, arguments: SearchArguments) -> results.HitsResult:
    query = SearchQuery(
        namespace=arguments.namespace,
        text=arguments.query,
        limit=arguments.top_k,
        tags=tuple(arguments.tags),
        prefix=arguments.prefix,
        mode=arguments.mode,
        min_score=arguments.min_score,
    )
    return results.hits_result(*questions.search(context, query))


def memory_history(context: Context, arguments: HistoryArguments) -> results.EventsResult:
    fetch = partial(
        context.store.event_list,
        arguments.namespace,
        key=arguments.key,
        include_reads=arguments.include_reads,
        cursor=arguments.cursor,
    )
    return results.events_result(lambda limit: fetch(limit=limit), arguments.limit)


def memory_restore(context: Context, arguments: RestoreArguments) -> results.FactResult:
    fact = context.store.fact_restore(
        context.caller,
        arguments.namespace,
        arguments.key,
        arguments.version,
        arguments.idempotency_key,
    )
    return results.FactResult(fact=results.whole_fact(context.wrote(fact)))


def memory_stats(context: Context, arguments: StatsArguments) -> results.StatsResult:
    stats = context.store.stats(arguments.namespace)
    return results.StatsResult.model_validate(
        dict(stats) | {"server_version": VERSION, "degraded": context.embedder.trouble()}
    )


def lock_hold(context: Context, arguments: HoldArguments) -> results.HeldResult:
    return results.HeldResult(held_seconds=context.store.lock_hold(arguments.seconds))


FACT_TOOLS: tuple[AnyTool, ...] = (
    Tool(
        name="memory_set",
        title="Remember a fact",
        description=(
            "Store text under a key as its next version, for every client and later session."
            " Last write wins unless one of the conditions expected_value, expected_version or"
            " require_absent is given; on a conflict nothing is written and the answer carries"
            " the current fact: merge and retry with its version as expected_version."
        ),
        arguments=SetArguments,
        output=results.FactResult,
        run=memory_set,
        destructive=True,
    ),
    Tool(
        name="memory_get",
        title="Read a fact",
        description=(
            "Read the fact under a key, as it is or, with at, as it was. An absent key is no error:"
            " found is false."
        ),
        arguments=GetArguments,
        output=results.FoundResult,
        run=memory_get,
        read_only=True,
    ),
    Tool(
        name="memory_list",
        title="List facts",
        description=(
            "List facts in the order of their keys, those that have the prefix and all the tags."
            " next_cursor, passed as cursor with the same arguments, continues the list."
        ),
        arguments=ListArguments,
        output=results.ListResult,
        run=memory_list,
        read_only=True,
    ),
    Tool(
        name="memory_delete",
        title="Forget a fact",
        description="Remove a fact. Its versions stay readable and can be restored.",
        arguments=DeleteArguments,
        output=results.RemovedResult,
        run=memory_delete,
        destructive=True,
    ),
    Tool(
        name="memory_search",
        title="Search facts",
        description=(
            "Find facts by meaning and by words, best first; ask in plain language. A value marked"
            " value_cut is shortened: memory_get has the whole. degraded says why meaning was not"
            " used; pending facts are found by their words only, for a moment."
        ),
        arguments=SearchArguments,
        output=results.HitsResult,
        run=memory_search,
        read_only=True,
    ),
    Tool(
        name="memory_history",
        title="Show the history",
        description=(
            "Who changed what and when, newest first, with the values before and after, refused"
            " writes included."
        ),
        arguments=HistoryArguments,
        output=results.EventsResult,
        run=memory_history,
        read_only=True,
    ),
    Tool(
        name="memory_restore",
        title="Restore a version",
        description="Write an older version of a key as its next one, even after deletion.",
        arguments=RestoreArguments,
        output=results.FactResult,
        run=memory_restore,
        destructive=True,
    ),
    Tool(
        name="memory_set_many",
        title="Remember facts",
        description=(
            "Store up to 100 facts, each on its own: the answer has one fact (or just its version)"
            " or problem for each, in order."
        ),
        arguments=SetManyArguments,
        output=results.OutcomesResult,
        run=memory_set_many,
        destructive=True,
    ),
    Tool(
        name="memory_get_many",
        title="Read facts",
        description=(
            "Read up to 100 facts in the order of keys, null if absent. left_out counts the last"
            " keys, whose facts did not fit: ask for them again."
        ),
        arguments=GetManyArguments,
        output=results.FactsResult,
        run=memory_get_many,
        read_only=True,
    ),
    Tool(
        name="memory_stats",
        title="Show the state of the memory",
        description="Counts, sizes, embedding backlog, model and version.",
        arguments=StatsArguments,
        output=results.StatsResult,
        run=memory_stats,
        read_only=True,
    ),
)

DEMO_TOOLS: tuple[AnyTool, ...] = (
    Tool(
        name="lock_hold",
        title="Hold the write lock",
        description="Hold the store's write lock to show what contention does.",
        arguments=HoldArguments,
        output=results.HeldResult,
        run=lock_hold,
    ),
)


def tools(*, demo: bool = False) -> tuple[AnyTool, ...]:
    return FACT_TOOLS + (DEMO_TOOLS if demo else ())
