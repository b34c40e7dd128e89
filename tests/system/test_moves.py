"""A move that is killed has not moved anything; a large memory moves in little memory."""

import hashlib
import os
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager

import psycopg
import pytest

from memory_store.postgres import PostgresEngine
from memory_store.reindex import ensure_words
from memory_store.sqlite import SqliteEngine
from postgres_server import new_database
from store.moves import contents, file_end, server_end
from system.memory_use import peak
from waiting import wait_until

COMMAND = [sys.executable, "-m", "memory_bridge"]
WAIT_SECONDS = 60
MEGABYTE = 1024 * 1024
FACTS = 800
A_PAGE_FULL = 250
BIG_FACTS = 1500
STORE_OF = """
CREATE TEMP TABLE key AS WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n LIMIT {0})
  SELECT printf('%06d', n) AS key FROM n;
INSERT INTO namespace VALUES (1, 'n');
INSERT INTO fact_version SELECT 1, key, 1, '{1}', '[]', '{{}}', NULL, 1, 1, NULL, 'c', 'p', 1
  FROM key;
INSERT INTO fact (namespace_id, key, version) SELECT 1, key, 1 FROM key;
INSERT INTO event (at, namespace_id, kind, key, version_after, source_client, principal,
  self_reported) SELECT 1, 1, 'set', key, 1, 'c', 'p', 1 FROM key;
"""


def make_file(path, facts, value="some words of a value"):
    with closing(SqliteEngine(path)) as engine:
        ensure_words(engine)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(STORE_OF.format(facts, value))
    return path


@pytest.fixture
def url():
    with new_database() as url:
        yield url


@pytest.fixture
def moving(tmp_path):
    """Starts a move of what is at one place to another."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("MCP_")}

    def start(origin, target):
        kind = "MCP_DATABASE_URL" if origin.startswith("postgresql:") else "MCP_MEMORY_DB"
        environment = {**kept, kind: origin}
        command = [*COMMAND, "migrate-to", target]
        return subprocess.Popen(command, env=environment, cwd=tmp_path, stdout=subprocess.DEVNULL)

    return start


def finished(process):
    return process.wait(WAIT_SECONDS) == 0


@contextmanager
def in_the_way(url, table):
    """Keeps whoever comes to this table waiting, and yields whether somebody does."""
    with psycopg.connect(url) as connection, psycopg.connect(url, autocommit=True) as watching:
        connection.execute(f"LOCK TABLE memory_bridge.{table} IN SHARE MODE".encode())

        def somebody_waits():
            waiting = "SELECT 1 FROM pg_locks WHERE NOT granted"
            return watching.execute(waiting).fetchone() is not None

        yield somebody_waits


def nobody_is_left(url):
    """Whether the server has noticed that the process which was killed is gone."""
    others = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    with psycopg.connect(url) as connection:
        return connection.execute(others).fetchone() == (0,)


@pytest.mark.parametrize("table", ["fact", "event", "fact_word"])
def test_a_move_to_postgres_that_is_killed_begins_again(table, moving, tmp_path, url):
    file = make_file(tmp_path / "memory.db", FACTS)
    before = hashlib.sha256(file.read_bytes()).digest()
    with closing(PostgresEngine(url)):
        pass
    with in_the_way(url, table) as somebody_waits:
        process = moving(str(file), url)
        wait_until(somebody_waits)
        process.kill()
        process.wait(WAIT_SECONDS)
    wait_until(lambda: nobody_is_left(url))

    assert hashlib.sha256(file.read_bytes()).digest() == before
    assert not any(contents(server_end(url)).values())
    assert finished(moving(str(file), url))
    assert contents(server_end(url)) == contents(file_end(file))


def test_a_move_to_a_file_that_is_killed_begins_again(moving, tmp_path, url):
    origin = make_file(tmp_path / "origin.db", FACTS, "x" * 8000)
    assert finished(moving(str(origin), url))
    expected = contents(server_end(url))
    target = tmp_path / "memory.db"
    process = moving(url, str(target))
    wait_until(lambda: target.exists() and target.stat().st_size > 3 * MEGABYTE)
    process.kill()
    process.wait(WAIT_SECONDS)
    wait_until(lambda: nobody_is_left(url))

    assert contents(server_end(url)) == expected
    assert target.with_name("memory.db-journal").stat().st_size
    assert finished(moving(url, str(target)))
    assert contents(file_end(target)) == expected


def test_a_large_memory_takes_no_more_memory_than_a_small_one(moving, tmp_path):
    peaks = {"to postgres": [], "to sqlite": []}
    for facts in (A_PAGE_FULL, BIG_FACTS):
        file = make_file(tmp_path / f"{facts}.db", facts, "x" * 15_000)
        with new_database() as url:
            peaks["to postgres"].append(peak(moving(str(file), url)))
            peaks["to sqlite"].append(peak(moving(url, str(tmp_path / f"{facts}.back.db"))))

    for way, (small, big) in peaks.items():
        assert big - small < 9 * MEGABYTE, way
