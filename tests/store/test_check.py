"""A store that agrees with itself is said to; each way of not doing so is found."""

import contextlib
import sqlite3

import pytest

from memory_store.operations.check import check
from memory_store.sqlite import SqliteEngine
from memory_store.words import index_words
from store.holders import Hand
from store.whole import ALICE, exported, populate, silent


@pytest.fixture
def store(opening, clock):
    store = opening(clock=clock)
    populate(store, clock)
    return store


@pytest.fixture
def alice(store):
    return Hand(store, ALICE)


@pytest.fixture
def spoil(path, alice):
    """Runs SQL on the file as nobody should."""
    alice.set("spoiled", "the word zanzibar", tags=("t",))

    def run(*statements, **parameters):
        fact = "(SELECT id FROM fact WHERE key = 'spoiled')"
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            for statement in statements:
                assert connection.execute(statement.format(fact=fact), parameters).rowcount

    return run


def names(report):
    return {finding.name for finding in report.findings}


def test_a_store_with_all_kinds_of_history_is_clean(store):
    report = check(store.engine, silent())

    assert report.findings == ()
    assert report.is_good
    assert report.sentences() == ["nothing is wrong"]


def test_a_store_is_clean_at_every_stage_of_embedding(store, meaning, alice):
    store.model_use(meaning.embedder.identity)
    assert check(store.engine, silent()).findings == ()
    meaning.catch_up()
    assert check(store.engine, silent()).findings == ()
    alice.set("plain", "replaced")
    alice.delete("long-lived")
    assert check(store.engine, silent()).findings == ()


UNINDEX = (
    "INSERT INTO fact_words (fact_words, rowid, ns, words) VALUES ('delete', {fact}, 1, :words)"
)
DERIVED = {
    "facts missing from the index": [
        UNINDEX,
    ],
    "facts with other words in the index": [
        UNINDEX,
        "INSERT INTO fact_words (rowid, ns, words) VALUES ({fact}, '1', 'old words')",
    ],
    "entries of the index for no fact": [
        "INSERT INTO fact_words (rowid, ns, words) VALUES (99999, '1', 'phantom')"
    ],
    "facts with other tags in the table of tags": [
        "UPDATE fact_tag SET tag = 'other' WHERE fact_id = {fact}"
    ],
    "tags of no fact": ["INSERT INTO fact_tag (tag, fact_id) VALUES ('lost', 99999)"],
    "changes of no fact, or of a version that was replaced": [
        "UPDATE change SET version = version + 1 WHERE subject = {fact}"
    ],
    "facts that have no vector and await none": ["DELETE FROM change WHERE subject = {fact}"],
    "vectors of no fact, or of a version that was replaced": [
        "INSERT INTO model (identity, dimension, in_use) VALUES ('m', 1, 0)",
        "INSERT INTO vector VALUES (1, 99999, 1, 0, 1, '')",
    ],
}


@pytest.mark.parametrize("name", DERIVED)
def test_what_is_derived_is_found_and_repaired(name, spoil, store, alice, clock):
    words = " ".join(index_words("spoiled", "the word zanzibar", "t"))
    before = exported(store, clock).getvalue()
    spoil(*DERIVED[name], words=words)
    found = check(store.engine, silent())

    assert names(found) == {name}
    assert not found.is_good
    assert "--repair puts it right" in found.sentences()[0]
    repaired = check(store.engine, silent(), repair=True)
    assert repaired.is_good
    assert "; repaired" in repaired.sentences()[0]
    assert check(store.engine, silent()).findings == ()
    assert exported(store, clock).getvalue() == before
    assert alice.found("zanzibar") == ["spoiled"]
    assert alice.keys(tags=("t",)) == ["spoiled"]


OWN = {
    "facts whose version is missing": "UPDATE fact SET version = 7 WHERE id = {fact}",
    "facts that are not at their newest version": "INSERT INTO fact_version SELECT namespace_id,"
    " key, 2, value, tags, metadata, expires_at, created_at, written_at, removed_at, source_client,"
    " principal, self_reported FROM fact_version WHERE key = 'spoiled'",
    "facts whose version was removed": "UPDATE fact_version SET removed_at = 1"
    " WHERE key = 'spoiled'",
    "facts that expire at another time than their version": "UPDATE fact SET expires_at = 9"
    " WHERE id = {fact}",
    "versions that were not removed and are no longer there": "DELETE FROM fact WHERE id = {fact}",
    "events of versions that are missing": "UPDATE event SET version_after = 7"
    " WHERE key = 'spoiled'",
    "versions that no event tells of": "DELETE FROM event WHERE key = 'spoiled'",
}


@pytest.mark.parametrize("name", OWN)
def test_what_is_nobodys_to_repair_is_found_and_left_alone(name, spoil, store, clock):
    spoil(OWN[name])
    before = exported(store, clock).getvalue()
    found = check(store.engine, silent(), repair=True)

    assert name in names(found)
    assert name not in found.repaired
    assert not found.is_good
    assert exported(store, clock).getvalue() == before


def test_a_damaged_page_is_a_finding(store, path):
    store.close()
    content = bytearray(path.read_bytes())
    content[4096 * 5 : 4096 * 9] = b"\xff" * 4096 * 4
    path.write_bytes(content)
    with contextlib.closing(SqliteEngine(path)) as engine:
        found = check(engine, silent(), repair=True)

    assert not found.is_good
    assert any("damaged" in sentence for sentence in found.sentences())


def test_a_check_while_others_write_finds_nothing(store, alice):
    for number in range(20):
        alice.set(f"k{number}", "v" * number)
        alice.delete(f"k{number}")
        if not number % 5:
            assert check(store.engine, silent()).findings == ()
