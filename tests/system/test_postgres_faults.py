"""What goes wrong with a Postgres server is said, is recovered from, and costs nothing written."""

import contextlib
import shutil
import subprocess
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from bench.store_process import PROGRAM, SECRET, environment_of, store_process
from databases import opened_store
from memory_store.client import HttpStore
from memory_store.contract import Caller, StoreError, Unavailable
from postgres_server import PROGRAMS, PostgresServer, new_database
from store.holders import Hand
from system.disks import fill, mounted
from system.halves import halves

CALLER = Caller(principal="p", source_client="c")
WAIT_SECONDS = 30


@pytest.fixture(scope="module")
def server():
    """One that a test may end."""
    server = PostgresServer()
    yield server
    server.remove()


@pytest.fixture
def database():
    with new_database() as address:
        yield address


@contextlib.contextmanager
def served(database):
    with store_process(database) as process:
        client = HttpStore(process.url, SECRET)
        yield Hand(client, CALLER)
        client.close()


def started(database):
    """A store that is started and ends by itself; what it said."""
    return subprocess.run(
        PROGRAM,
        env={"MCP_STORE_PORT": "0", "MCP_STORE_SECRET": SECRET, **environment_of(database)},
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )


def first_answer(call):
    """What it answers once it does."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            return call()
        except StoreError as error:
            if not error.retryable or time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def test_a_server_that_is_gone_is_said_and_is_used_again_once_it_is_back(server):
    with served(server.new_database()) as hand:
        hand.set("k", "before")
        server.crash()
        for call in (lambda: hand.set("k", "while"), lambda: hand.get("k")):
            with pytest.raises(Unavailable) as error:
                call()
            assert error.value.retryable
            assert "127.0.0.1" not in error.value.message
        server.start()
        assert first_answer(lambda: hand.get("k")).value == "before"
        assert hand.set("k", "after").version == 2


def test_a_store_does_not_start_where_no_server_listens(server):
    database = server.new_database()
    server.stop()
    done = started(database)
    server.start()
    assert done.returncode == 1
    assert "cannot be opened: " in done.stderr
    assert "refused" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def server_without_vector():
    """A whole installation but for the extension, as a distribution's plain Postgres is."""
    with tempfile.TemporaryDirectory(prefix="memory-bridge-plain-") as folder:
        Path(folder).chmod(0o755)
        package = PROGRAMS.parents[1]
        copy = Path(folder, package.name, PROGRAMS.parent.name)
        shutil.copytree(PROGRAMS.parent, copy, symlinks=True)
        # Its programs look for their libraries there, from where they are.
        libraries = f"{package.name}.libs"
        Path(folder, libraries).symlink_to(package.with_name(libraries))
        for file in [*copy.rglob("vector*.sql"), *copy.rglob("vector.*")]:
            file.unlink()
        server = PostgresServer(programs=copy / "bin")
        yield server
        server.remove()


def test_a_store_does_not_start_on_a_server_without_the_vector_extension(server_without_vector):
    database = server_without_vector.new_database()
    done = started(database)
    assert done.returncode == 1
    assert "has no pgvector; install the extension 'vector' (0.8 or newer)" in done.stderr
    assert "Traceback" not in done.stderr
    with psycopg.connect(database) as connection:
        made = connection.execute("SELECT to_regnamespace('memory_bridge')").fetchone()
    assert made == (None,)


@pytest.fixture
def folder():
    """One that the server's user reaches, as it does not those of tests."""
    with tempfile.TemporaryDirectory(prefix="memory-bridge-disk-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_a_full_disk_is_said_and_what_was_acknowledged_stays(server, folder):
    written = {}
    with mounted(folder / "disk", "size=16m") as disk:
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(4_000_000))
        space = disk / "space"
        space.mkdir()
        server.give(space)
        server.execute(f"CREATE TABLESPACE small LOCATION '{space}'")
        server.execute("CREATE DATABASE on_small TABLESPACE small STRATEGY file_copy")
        database = server.url("on_small")
        with served(database) as hand:
            with pytest.raises(Unavailable, match="disk is full; nothing was written, free some"):
                fill(hand, written)
            assert written
            assert hand.get("k0").value == written["k0"]
            ballast.unlink()
            hand.set("after", "it goes on")
        written["after"] = "it goes on"
        with contextlib.closing(opened_store(database)) as store:
            hand = Hand(store, CALLER)
            assert hand.keys(limit=1000) == sorted(written)
            assert {key: hand.get(key).value for key in written} == written
            assert [*halves(store)] == []
        server.drop(database)
        server.execute("DROP TABLESPACE small")


def test_a_write_that_got_into_the_way_of_another_is_done_again(database):
    """The other waits for longer, so that it is this one which is told of the deadlock."""
    held, went_on = threading.Event(), threading.Event()
    tries = []
    with (
        contextlib.closing(opened_store(database)) as store,
        psycopg.connect(database) as other,
        ThreadPoolExecutor(1) as threads,
    ):
        hand = Hand(store, CALLER)
        hand.set("a", "1")
        hand.set("b", "1")

        def touch(session):
            tries.append(1)
            session.run("UPDATE fact SET version = version WHERE key = 'a'")
            held.set()
            assert went_on.wait(WAIT_SECONDS)
            session.run("UPDATE fact SET version = version WHERE key = 'b'")
            return "done"

        other.execute("SET deadlock_timeout = '1min'")
        other.execute("UPDATE memory_bridge.fact SET version = version WHERE key = 'b'")
        writing = threads.submit(store.engine.write, touch, ("a lock",))
        assert held.wait(WAIT_SECONDS)
        went_on.set()
        other.execute("UPDATE memory_bridge.fact SET version = version WHERE key = 'a'")
        other.rollback()
        assert writing.result(WAIT_SECONDS) == "done"
    assert len(tries) > 1
