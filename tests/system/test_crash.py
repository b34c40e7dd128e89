"""A process that is killed in the middle of a write storm loses nothing that it acknowledged."""

import subprocess
import sys
from pathlib import Path

import pytest

from memory_store.contract import Caller, SearchQuery
from memory_store.sqlite import SqliteEngine
from memory_store.store import SqlStore

STORM = Path(__file__).with_name("write_storm.py")
ROUNDS = 4
ACKNOWLEDGED = 250
CALLER = Caller(principal="p", source_client="c")


def storm_until_killed(path, number):
    """Returns (kind, key, version, value) of every write that was acknowledged."""
    with subprocess.Popen(
        [sys.executable, str(STORM), str(path), str(number)], stdout=subprocess.PIPE, text=True
    ) as process:
        lines = [process.stdout.readline() for _ in range(ACKNOWLEDGED + 37 * number)]
        process.kill()
        lines += process.stdout.readlines()
    assert process.returncode == -9
    return [line.rstrip("\n").split("\t") for line in lines if line.endswith("\n")]


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The store after several storms on one file, and what they acknowledged."""
    path = tmp_path_factory.mktemp("crash") / "memory.db"
    writes = []
    for number in range(ROUNDS):
        writes += storm_until_killed(path, number)
        SqlStore(SqliteEngine(path)).close()
    writes += storm_until_killed(path, ROUNDS)
    store = SqlStore(SqliteEngine(path), log_reads=False)
    yield store, writes
    store.close()


def rows(store, sql):
    with store.engine.read() as session:
        return [tuple(row.values()) for row in session.all(sql)]


def present(store):
    return rows(
        store,
        "SELECT f.key, f.version, v.value FROM fact f JOIN fact_version v"
        " ON v.namespace_id = f.namespace_id AND v.key = f.key AND v.version = f.version",
    )


def found(store, word):
    hits = store.fact_search(CALLER, SearchQuery(text=word, limit=100)).hits
    return [hit.fact.key for hit in hits]


def test_every_acknowledged_write_is_there(killed):
    store, writes = killed
    versions = set(rows(store, "SELECT key, version, value FROM fact_version"))

    assert len(writes) > ROUNDS * ACKNOWLEDGED
    assert {(key, int(version), value) for _, key, version, value in writes} <= versions


def test_what_was_acknowledged_last_is_what_holds(killed):
    """Unless the next write of that thread was committed and only its acknowledgement cut off."""
    store, writes = killed
    last = {key: (kind, int(version)) for kind, key, version, _ in writes}
    for key, (kind, version) in last.items():
        newest = store.event_list("default", key, limit=1).events[0]
        assert (newest.kind, newest.version) in {
            (kind, version),
            ("set", version + 1),
            *([("delete", version)] if kind == "set" else []),
        }
        fact = store.fact_get(CALLER, "default", key)
        assert (fact and fact.version) == (newest.version if newest.kind == "set" else None)


def test_the_file_is_whole(killed):
    store, _ = killed

    assert rows(store, "PRAGMA integrity_check") == [("ok",)]
    assert rows(store, "PRAGMA foreign_key_check") == []


def test_the_index_agrees_with_the_table(killed):
    store, _ = killed
    facts = present(store)
    store.engine.write(
        lambda session: session.run(
            "INSERT INTO fact_words (fact_words) VALUES ('integrity-check')"
        )
    )

    assert rows(store, "SELECT count(*) FROM fact_words_docsize") == [(len(facts),)]
    for key, _, value in facts:
        assert found(store, value.split()[-1]) == [key]
    replaced = {value for _, value in rows(store, "SELECT key, value FROM fact_version")}
    for value in sorted(replaced - {value for _, _, value in facts})[::10]:
        assert found(store, value.split()[-1]) == []


def test_events_changes_and_tags_agree_with_the_versions(killed):
    store, _ = killed
    versions = rows(store, "SELECT key, version FROM fact_version ORDER BY key, version")
    facts = sorted((key, version) for key, version, _ in present(store))

    assert versions == rows(
        store, "SELECT key, version FROM event WHERE kind = 'set' ORDER BY key, version"
    )
    removed = rows(store, "SELECT key, version FROM event WHERE kind = 'delete'")
    assert sorted(removed) == rows(
        store,
        "SELECT key, version FROM fact_version WHERE removed_at IS NOT NULL ORDER BY key, version",
    )
    for derived in ("change c ON c.subject", "fact_tag c ON c.fact_id"):
        assert facts == rows(
            store,
            f"SELECT f.key, f.version FROM fact f JOIN {derived} = f.id ORDER BY f.key, f.version",
        )
