"""The index on Postgres is compared with the facts as that on SQLite is."""

import pytest

from memory_store.operations.check import check
from store.holders import HOLDERS, Hand
from store.whole import ALICE, populate, silent

FACT = "fact_id = (SELECT id FROM fact WHERE key = 'spoiled')"
DRIFT = {
    "facts missing from the index": f"DELETE FROM fact_word WHERE {FACT}",
    "facts with other words in the index": "UPDATE fact_word SET word = 'old'"
    f" WHERE word = 'zanzibar' AND {FACT}",
    "entries of the index for no fact": "INSERT INTO fact_word VALUES ('phantom', 1, 99999, 1, 2)",
}


@pytest.fixture
def holder():
    return HOLDERS["postgres"]


@pytest.fixture
def alice(backing, clock):
    populate(backing, clock)
    hand = Hand(backing, ALICE)
    hand.set("spoiled", "zanzibar zanzibar of words")
    return hand


@pytest.mark.parametrize("name", DRIFT)
def test_drift_of_the_index_is_found_and_repaired(name, alice, backing):
    assert check(backing.engine, silent()).findings == ()
    backing.engine.write(lambda session: session.run(DRIFT[name]))
    found = check(backing.engine, silent(), repair=True)

    assert [finding.name for finding in found.findings] == [name]
    assert found.is_good
    assert check(backing.engine, silent()).findings == ()
    assert alice.found("zanzibar") == ["spoiled"]
