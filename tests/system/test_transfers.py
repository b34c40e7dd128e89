"""An import that is killed is finished by running it again; large files pass in little memory."""

import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest

from memory_store.operations.check import check
from memory_store.reindex import ensure_words
from memory_store.sqlite import SqliteEngine
from memory_store.store import SqlStore
from store.whole import exported, silent, without_imports
from system.memory_use import peak

OPERATIONS = [sys.executable, "-m", "memory_bridge"]
FACTS = 1500
ROUNDS = 3
WAIT_SECONDS = 60
MEGABYTE = 1024 * 1024
BIG_FACTS = 3500
VALUE = "x" * 15_000


def clock():
    return 1_767_225_600_000


def header(facts):
    counts = f'{{"namespace":0,"version":{facts},"fact":{facts},"event":{facts}}}'
    return (
        '{"kind":"header","format":"memory-bridge","format_version":1,'
        f'"exported_at":"2026-01-01T00:00:00.000Z","counts":{counts}}}\n'
    )


def fact(number):
    key = f'"namespace":"n","key":"{number:06}","version":1'
    at = '"2026-01-01T00:00:00.000Z"'
    author = '"source_client":"c","principal":"p","self_reported":true'
    version = (
        f'{{"kind":"version",{key},"value":"words","tags":[],"metadata":{{}},"expires_at":null,'
        f'"created_at":{at},"written_at":{at},"removed_at":null,{author}}}\n'
    )
    return f'{version}{{"kind":"fact",{key}}}\n'


def event(number):
    return (
        '{"kind":"event","at":"2026-01-01T00:00:00.000Z","namespace":"n","event":"set",'
        f'"key":"{number:06}","version":1,"version_before":null,"version_after":1,"body":null,'
        '"detail":{},"source_client":"c","principal":"p","self_reported":true,'
        '"claimed_client":null,"request_id":null}\n'
    )


def write_export(path, facts):
    with path.open("w") as out:
        out.write(header(facts))
        out.writelines(fact(number) for number in range(facts))
        out.writelines(event(number) for number in range(facts))
    return path


@pytest.fixture
def environment(tmp_path):
    kept = {name: text for name, text in os.environ.items() if not name.startswith("MCP_")}
    return {**kept, "MCP_MEMORY_DB": str(tmp_path / "memory.db")}


def count(path, table):
    with closing(SqliteEngine(path)) as engine, engine.read() as session:
        return session.one(f"SELECT count(*) AS n FROM {table}")["n"]


def wait_for_size(path, least):
    deadline = time.monotonic() + WAIT_SECONDS
    while not path.exists() or path.stat().st_size < least:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_an_import_that_is_killed_again_and_again_ends_as_one_that_was_not(tmp_path, environment):
    file = write_export(tmp_path / "a.jsonl", FACTS)
    database = tmp_path / "memory.db"
    reached = []
    for number in range(ROUNDS):
        command = [*OPERATIONS, "import", str(file)]
        with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
            wait_for_size(database.with_name("memory.db-wal"), (number + 1) * MEGABYTE // 2)
            process.kill()
        reached.append([count(database, table) for table in ("fact_version", "event", "fact")])
    done = subprocess.run([*OPERATIONS, "import", str(file)], env=environment, check=False)

    assert done.returncode == 0
    assert reached == sorted(reached)
    assert reached[0][2] < FACTS
    with closing(SqlStore(SqliteEngine(database))) as store:
        assert check(store.engine, silent()).findings == ()
        lines = without_imports(exported(store, clock))
        events = store.event_list("n", limit=1).events
    assert [line.decode() for line in lines[2:-1]] == file.read_text().splitlines()[1:]
    assert events[0].kind == "import"
    assert count(database, "event") == 2 * FACTS


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


def make_store(path, facts):
    with closing(SqliteEngine(path)) as engine:
        ensure_words(engine)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(STORE_OF.format(facts, VALUE))


def test_fifty_megabytes_pass_without_being_held(tmp_path, environment):
    peaks = {"export": [], "import": []}
    for facts in (10, BIG_FACTS):
        database, file = tmp_path / f"{facts}.db", tmp_path / f"{facts}.jsonl"
        make_store(database, facts)
        command = [*OPERATIONS, "--db", str(database)]
        for verb, options in (("export", []), ("import", ["--dry-run"])):
            arguments = [*command, verb, *options, str(file)]
            process = subprocess.Popen(arguments, env=environment, stdout=subprocess.DEVNULL)
            peaks[verb].append(peak(process))

    assert file.stat().st_size > 50 * MEGABYTE
    for verb, (small, big) in peaks.items():
        assert big - small < 30 * MEGABYTE, verb
