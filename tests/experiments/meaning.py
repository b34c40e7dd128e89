"""Questions that share no word with any fact, and the facts that they are about."""

import re
from collections.abc import Mapping

from bench.corpus import facts
from experiments.findings import ExperimentError, Finding, Sizes
from experiments.serving import Site, remember
from memory_bridge.memory import Memory

NAMESPACE = "meaning"
ASKED = {
    "lunch/thursday": ("We order pizza on Thursdays.", "Italian food delivery"),
    "frontend/theme": ("Users asked for a dark colour scheme.", "night mode appearance"),
    "infra/secrets": (
        "Passwords and API keys live in Vault, never in git.",
        "storing confidential credentials safely",
    ),
    "payments.provider": ("Stripe", "who handles our credit cards?"),
    "office/espresso": (
        "The coffee machine is descaled every month.",
        "caffeinated drinks equipment cleaning",
    ),
    "travel/trains": ("Take the railway rather than a plane.", "environmentally friendly journeys"),
}


def known(count: int) -> dict[str, str]:
    """The facts that are asked for, among others."""
    mine = {key: value for key, (value, _) in ASKED.items()}
    return mine | facts(max(0, count - len(mine)))


def shared_words(question: str, stored: Mapping[str, str]) -> set[str]:
    """The words of a question that stand in any fact, its key included, in whatever case."""
    texts = " ".join(f"{key} {value}" for key, value in stored.items())
    return _words(question) & _words(texts)


def _words(text: str) -> set[str]:
    return set(re.findall(r"[^\W_]+", text.lower()))


def measure(site: Site, sizes: Sizes) -> Finding:
    stored = known(sizes.facts)
    with site.memory(NAMESPACE) as memory:
        remember(memory, stored)
        scores = {key: _scores(memory, stored, key) for key in ASKED}
    found = [
        f"“{ASKED[key][1]}” → {key} {mine:.2f} ({other} {others:.2f})"
        for key, (mine, other, others) in scores.items()
    ]
    example = ASKED["lunch/thursday"][1]
    return Finding(
        "recall by meaning",
        f"of {len(stored)} facts the right one comes first, without one word in common with any;"
        " beside its score that of an unrelated one",
        "; ".join(found),
        holds=all(mine > others for mine, _, others in scores.values()),
        by_hand="\n".join(
            f"memory-bridge {words} --url $URL --token-file $FILE"
            for words in (
                f'set lunch/thursday "{ASKED["lunch/thursday"][0]}"',
                f'search "{example}"',
            )
        ),
    )


def _scores(memory: Memory, stored: Mapping[str, str], key: str) -> tuple[float, str, float]:
    """Returns what the fact scored, an unrelated one, and what that scored."""
    question = ASKED[key][1]
    if shared := shared_words(question, stored):
        raise ExperimentError(f"“{question}” shares {', '.join(sorted(shared))} with a fact.")
    first = memory.call("memory_search", {"query": question, "top_k": 1})
    if first["mode"] != "hybrid" or first["hits"][0]["fact"]["key"] != key:
        raise ExperimentError(f"“{question}” did not find {key} first, by {first['mode']}.")
    keys = [*ASKED]
    other = keys[keys.index(key) - 1]
    beside = {"query": question, "prefix": other, "top_k": 1}
    unrelated = memory.call("memory_search", beside)["hits"]
    return first["hits"][0]["score"], other, unrelated[0]["score"] if unrelated else 0.0
