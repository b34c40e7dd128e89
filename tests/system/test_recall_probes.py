"""What is hard to find comes first among 200 other facts, asked of the server as a client would."""

import re
from collections.abc import Iterator

import pytest

from bench.corpus import facts
from bench.probes import FACTS, FILLERS, PROBES
from bench.served import Served, served

ASKED = [
    pytest.param(probe.question, mode, probe.key, id=f"{probe.name}, {mode}")
    for probe in PROBES
    for mode in probe.modes
]


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    database = tmp_path_factory.mktemp("probes") / "memory.db"
    with served(database, MCP_QUERY_DEADLINE_MS="20000") as memory:
        memory.remember(facts(FILLERS) | FACTS)
        memory.wait_until_embedded()
        yield memory


@pytest.mark.parametrize(("question", "mode", "key"), ASKED)
def test_it_comes_first(memory, question, mode, key):
    assert memory.search(question, mode, 5)[:1] == [key]


def test_the_long_value_is_4_kb_and_ends_with_what_is_asked_for():
    [probe] = [probe for probe in PROBES if probe.name == "the last sentence of 4 KB"]
    assert len(FACTS[probe.key]) == 4096
    assert FACTS[probe.key].endswith(probe.question)


@pytest.mark.parametrize("probe", [probe for probe in PROBES if "paraphrase" in probe.name])
def test_a_paraphrase_shares_no_word_with_its_fact(probe):
    fact = words(f"{probe.key} {FACTS[probe.key]}")
    assert not words(probe.question) & fact


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))
