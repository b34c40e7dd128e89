"""Where search puts what is hard to find: the probes, and facts asked for in other words."""

from collections.abc import Iterator

from corpus import facts
from figures import Figure
from paraphrases import PARAPHRASES
from probes import FACTS, FILLERS, PROBES
from served import Served, new_database, served

DEPTH = 100


def measure() -> Iterator[Figure]:
    yield from _probes()
    yield from _paraphrases()


def _probes() -> Iterator[Figure]:
    with new_database() as database, served(database) as memory:
        memory.remember(facts(FILLERS) | FACTS)
        memory.wait_until_embedded()
        for probe in PROBES:
            for mode in probe.modes:
                rank = _rank(memory, probe.question, mode, probe.key)
                yield Figure(f"rank of {probe.name}, {mode}", rank, "", most=1)


def _paraphrases() -> Iterator[Figure]:
    with new_database() as database, served(database) as memory:
        values = {key: value for key, (value, _) in PARAPHRASES.items()}
        memory.remember(facts(FILLERS) | values)
        memory.wait_until_embedded()
        for mode in ("hybrid", "lexical", "semantic"):
            ranks = [
                _rank(memory, question, mode, key) for key, (_, question) in PARAPHRASES.items()
            ]
            for depth in (1, 5):
                share = sum(rank <= depth for rank in ranks) / len(ranks)
                yield Figure(f"paraphrases among the first {depth}, {mode}", 100 * share, "%")


def _rank(memory: Served, question: str, mode: str, key: str) -> int:
    """Counts from 1; what was not found stands behind everything that could have been."""
    found = memory.search(question, mode, DEPTH)
    return found.index(key) + 1 if key in found else DEPTH + 1
