"""What a warm write and a warm search take, at a few hundred facts."""

from collections.abc import Sequence

from bench.corpus import facts, questions
from bench.figures import milliseconds, percentile
from experiments.findings import Finding, Sizes
from experiments.serving import Site, remember

NAMESPACE = "latency"
LIMITS_MS = {"memory_set": 100, "memory_search": 50}
WARM_UP = 20


def measure(site: Site, sizes: Sizes) -> Finding:
    """Writes replace facts, so that their number stays; each question is a new one."""
    return judged(timed(site, sizes), sizes)


def timed(site: Site, sizes: Sizes) -> dict[str, list[float]]:
    """Milliseconds of each call, by its tool."""
    stored, calls = facts(sizes.facts), WARM_UP + sizes.calls
    keys = [*stored]
    with site.memory(NAMESPACE) as memory:
        remember(memory, stored)
        searches = [
            milliseconds(lambda asked=asked: memory.call("memory_search", {"query": asked}))
            for asked in questions(calls)
        ]
        sets = [
            milliseconds(
                lambda number=number: memory.call(
                    "memory_set", {"key": keys[number % len(keys)], "value": f"changed {number}"}
                )
            )
            for number in range(calls)
        ]
    return {"memory_set": sets[WARM_UP:], "memory_search": searches[WARM_UP:]}


def judged(times: dict[str, Sequence[float]], sizes: Sizes) -> Finding:
    shown = [
        f"{tool} {percentile(taken, 50):.1f} / {percentile(taken, 95):.1f} /"
        f" {percentile(taken, 99):.1f} ms"
        for tool, taken in times.items()
    ]
    limits = ", ".join(f"{tool} within {limit} ms" for tool, limit in LIMITS_MS.items())
    return Finding(
        f"warm calls over HTTP at {sizes.facts} facts",
        f"95 of 100: {limits}",
        f"{'; '.join(shown)} (p50 / p95 / p99 of {sizes.calls} calls each)",
        holds=all(percentile(times[tool], 95) <= limit for tool, limit in LIMITS_MS.items()),
        by_hand="make bench  # the same at 10,000 facts, and much more",
    )
