"""A database of any earlier version becomes one of this version, whole or not at all."""

import contextlib
import json
import logging
import sqlite3
import subprocess
import sys

import pytest

from memory_store import migrations
from memory_store.contract import Caller, Internal
from memory_store.migrations import Migration, SchemaTooNew
from memory_store.opening import open_store
from memory_store.settings import StoreSettings
from memory_store.sqlite import SqliteEngine
from memory_store.sqlite.file import APPLICATION_ID, prepare
from store.holders import Hand

ALICE = Caller(principal="token:alice", source_client="alice")
WAIT_SECONDS = 30
KNOWN = migrations.migrations("sqlite")

# What a program of each version had written: in it are facts, one of them replaced, one removed,
# one with a vector. A new migration needs an entry, which writes what only it made room for.
FILLS = {
    1: """
    INSERT INTO namespace VALUES (1, 'default');
    INSERT INTO fact_version (namespace_id, key, version, value, tags, metadata, created_at,
      written_at, removed_at, source_client, principal, self_reported) VALUES
      (1, 'k', 1, 'first', '["t"]', '{}', 1000, 1000, NULL, 'alice', 'token:alice', 1),
      (1, 'k', 2, 'zebra', '["t"]', '{"n":[1]}', 1000, 2000, NULL, 'bob', 'token:bob', 0),
      (1, 'gone', 1, 'quokka', '[]', '{}', 3000, 3000, 4000, 'alice', 'token:alice', 1);
    INSERT INTO fact VALUES (7, 1, 'k', 2, NULL);
    INSERT INTO fact_tag VALUES ('t', 7);
    INSERT INTO event (at, namespace_id, kind, key, version, version_before, version_after,
      source_client, principal, self_reported) VALUES
      (1000, 1, 'set', 'k', 1, NULL, 1, 'alice', 'token:alice', 1),
      (2000, 1, 'set', 'k', 2, 1, 2, 'bob', 'token:bob', 0),
      (3000, 1, 'set', 'gone', 1, NULL, 1, 'alice', 'token:alice', 1),
      (4000, 1, 'delete', 'gone', 1, 1, NULL, 'alice', 'token:alice', 1);
    INSERT INTO model VALUES (1, 'm:1:mean:d', 1, 1);
    INSERT INTO vector VALUES (1, 7, 1, 0, 2, x'0000803f');
    """
}


def make(path, *known):
    """Makes the database of a program that knew only these migrations."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        for migration in known:
            connection.executescript(migration.sql)
            connection.executescript(FILLS.get(migration.number, ""))
            connection.execute(f"PRAGMA user_version = {migration.number}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def contents(path):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump()), *connection.execute("PRAGMA user_version").fetchone()


def opened(path):
    return contextlib.closing(open_store(StoreSettings.model_validate({"memory_db": path})))


def check_intact(store):
    alice = Hand(store, ALICE)
    fact = alice.get("k")
    assert (fact.value, fact.version, fact.tags, fact.metadata) == ("zebra", 2, ("t",), {"n": [1]})
    assert (fact.source_client, fact.self_reported, fact.index) == ("bob", False, "ready")
    assert alice.get("k", at=1).value == "first"
    assert alice.get("gone") is None
    assert alice.get("gone", at=1).value == "quokka"
    assert alice.keys(tags=["t"]) == alice.found("zebra") == ["k"]
    assert [(it.kind, it.key, it.version, it.value_before) for it in alice.events()] == [
        ("delete", "gone", 1, "quokka"),
        ("set", "gone", 1, None),
        ("set", "k", 2, "first"),
        ("set", "k", 1, None),
    ]
    stats = store.stats()
    assert (stats.facts, stats.versions, stats.embedded) == (1, 3, 1)
    assert alice.set("k", "3").version == 3
    assert alice.set("gone", "2").version == 2


@pytest.mark.parametrize("newest", [it.number for it in KNOWN])
def test_a_database_of_every_version_is_brought_up_to_date_with_all_that_is_in_it(newest, path):
    make(path, *(it for it in KNOWN if it.number <= newest))
    with opened(path) as store:
        assert store.stats().schema_version == KNOWN[-1].number
        check_intact(store)
        with store.engine.read() as session:
            assert [*session.one("PRAGMA integrity_check").values()] == ["ok"]
            assert session.all("PRAGMA foreign_key_check") == []


def test_every_migration_says_what_a_program_of_its_time_had_written():
    assert sorted(FILLS) == [it.number for it in KNOWN]
    assert [it.number for it in KNOWN] == list(range(1, len(KNOWN) + 1))


ADDS = Migration(
    len(KNOWN) + 1, "adds.sql", "ALTER TABLE fact ADD COLUMN colour TEXT DEFAULT 'red'"
)
REBUILDS = Migration(
    len(KNOWN) + 2,
    "rebuilds.sql",
    """
    CREATE TABLE made_anew (
      id INTEGER PRIMARY KEY AUTOINCREMENT, namespace_id INTEGER NOT NULL, key TEXT NOT NULL,
      version INTEGER NOT NULL, expires_at INTEGER, colour TEXT, UNIQUE (namespace_id, key)
    );
    INSERT INTO made_anew SELECT * FROM fact;
    DROP TABLE fact;
    ALTER TABLE made_anew RENAME TO fact; -- and nothing else
    """,
)
FAILS = Migration(
    len(KNOWN) + 2,
    "fails.sql",
    "UPDATE fact SET colour = 'blue'; DROP TABLE fact_tag; INSERT INTO nowhere VALUES (1);",
)
ORPHANS = Migration(len(KNOWN) + 2, "orphans.sql", "DELETE FROM fact;")


@pytest.fixture
def known(monkeypatch):
    """Lets the program know further migrations."""

    def know(*further):
        monkeypatch.setattr(migrations, "migrations", lambda _engine: [*KNOWN, *further])

    return know


@pytest.fixture
def old(path):
    make(path, *KNOWN)
    return path


def test_further_migrations_are_applied_in_order_and_once(old, known):
    known(ADDS, REBUILDS)
    for _ in range(2):
        assert prepare(old) == REBUILDS.number
    with opened(old) as store:
        with store.engine.read() as session:
            assert session.all("SELECT id, colour FROM fact") == [{"id": 7, "colour": "red"}]
        check_intact(store)


def test_one_that_is_applied_already_is_not_applied_again(old, known):
    known(ADDS)
    prepare(old)
    known(ADDS, REBUILDS)

    assert prepare(old) == REBUILDS.number


@pytest.mark.parametrize("failing", [FAILS, ORPHANS], ids=lambda it: it.name)
def test_a_migration_that_fails_half_way_leaves_the_old_version_as_it_was(
    failing, old, known, caplog
):
    before = contents(old)
    known(ADDS, failing)
    with pytest.raises(Internal, match="its log says why"), caplog.at_level(logging.ERROR):
        SqliteEngine(old)

    assert f"{failing.name} failed; the database stays as it was" in caplog.text
    assert contents(old) == before
    known()
    with opened(old) as store:
        check_intact(store)


def test_a_database_of_a_newer_program_is_refused_and_left_alone(old, known):
    known(ADDS)
    prepare(old)
    before = contents(old)
    known()
    with pytest.raises(SchemaTooNew, match=rf"{ADDS.number}, .* up to {len(KNOWN)}; start it with"):
        SqliteEngine(old)

    assert contents(old) == before


UPGRADES = """
import json, sys
from pathlib import Path
from memory_store import migrations
from memory_store.migrations import Migration
from memory_store.sqlite.file import prepare
known = [Migration(*fields) for fields in json.loads(sys.argv[2])]
migrations.migrations = lambda engine: known
print("ready", flush=True)
sys.stdin.readline()
print(prepare(Path(sys.argv[1])))
"""


def test_of_processes_that_start_at_once_on_an_old_file_one_upgrades_it(old):
    known = json.dumps([[*vars(it).values()] for it in (*KNOWN, ADDS, REBUILDS)])
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", UPGRADES, str(old), known],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    assert [it.stdout.readline() for it in processes] == ["ready\n"] * 4
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    said = [process.communicate(timeout=WAIT_SECONDS) for process in processes]

    assert said == [(f"{REBUILDS.number}\n", "")] * 4
