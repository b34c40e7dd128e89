"""What only the Postgres engine promises: many processes, honest errors, events in order."""

import contextlib
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import psycopg
import pytest

from fakes import FakeEmbedder
from memory_store.contract import Busy, Caller, Conflict, FactWrite, Invalid, Unavailable
from memory_store.events import Entry, append
from memory_store.migrations import SchemaTooNew
from memory_store.postgres import PostgresEngine
from memory_store.reindex import ensure_words
from memory_store.store import SqlStore
from postgres_server import PostgresServer, new_database, shared_server
from store.holders import Hand, Meaning

ALICE = Caller(principal="token:alice", source_client="alice")
WAIT_SECONDS = 20
THREADS = 8


@pytest.fixture
def url():
    with new_database() as address:
        yield address


@pytest.fixture
def opening(url):
    """Opens stores on one database, as so many processes would."""
    with ExitStack() as stack:

        def open_one(busy_timeout_ms=5000, **options):
            store = SqlStore(PostgresEngine(url, busy_timeout_ms), **options)
            stack.callback(store.close)
            return store

        yield open_one


def wait_for(condition):
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.01)


def test_of_several_stores_that_count_together_none_loses_a_step(opening):
    stores = [opening(log_reads=False) for _ in range(3)]
    Hand(stores[0], ALICE).set("count", "0")

    def count(number):
        hand, done = Hand(stores[number % 3], ALICE), 0
        while done < 10:
            fact = hand.get("count")
            with contextlib.suppress(Conflict):
                hand.set("count", str(int(fact.value) + 1), expected_version=fact.version)
                done += 1

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(count, range(6)))
    fact = Hand(stores[0], ALICE).get("count")
    assert (fact.value, fact.version) == ("60", 61)


def test_the_events_of_a_key_are_in_the_order_of_its_versions(opening):
    stores = [opening(log_reads=False) for _ in range(2)]

    def write(number):
        for count in range(15):
            Hand(stores[number % 2], ALICE).set("k", f"{number} {count}")

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(write, range(6)))
    events = Hand(stores[0], ALICE).events("k")
    assert [event.version for event in events] == list(range(90, 0, -1))


def test_writes_to_different_keys_do_not_wait_for_each_other(opening):
    store = opening(log_reads=False)
    started, go_on = threading.Event(), threading.Event()

    def hold(_session):
        started.set()
        assert go_on.wait(WAIT_SECONDS)

    with ThreadPoolExecutor(1) as threads:
        holding = threads.submit(store.engine.write, hold, ("another key",))
        assert started.wait(WAIT_SECONDS)
        Hand(store, ALICE).set("k")
        go_on.set()
        holding.result()


def test_the_deletion_of_a_namespace_keeps_only_its_own_writes_waiting(opening, url):
    store = opening(log_reads=False)
    hands = {name: Hand(store, ALICE, namespace=name) for name in ("gone", "other")}
    for hand in hands.values():
        hand.set("k")
    with psycopg.connect(url) as other, ThreadPoolExecutor(2) as threads:
        other.execute("SELECT 1 FROM memory_bridge.fact FOR UPDATE")
        deleting = threads.submit(store.namespace_delete, ALICE, "gone", 1)
        wait_for(lambda: is_waited_for(other))
        assert hands["other"].set("new").version == 1
        writing = threads.submit(hands["gone"].set, "new")
        wait_for(lambda: is_waited_for(other, "advisory"))
        other.rollback()
        assert deleting.result(WAIT_SECONDS) == 1
        assert writing.result(WAIT_SECONDS).version == 1
    assert hands["gone"].keys() == ["new"]


def is_waited_for(connection, kind="transactionid"):
    asked = "SELECT 1 FROM pg_locks WHERE NOT granted AND locktype = %s"
    return connection.execute(asked, [kind]).fetchone() is not None


def test_each_change_is_leased_once_whichever_store_is_asked(opening):
    stores = [opening(log_reads=False) for _ in range(3)]
    embedder = FakeEmbedder()
    stores[0].model_use(embedder.identity)
    for number in range(60):
        Hand(stores[0], ALICE).set(f"k{number}")

    def take(number):
        store = stores[number % 3]
        return [
            change.subject
            for _ in range(10)
            for change in store.change_take(f"worker {number}", embedder.identity.id, limit=5)
        ]

    with ThreadPoolExecutor(6) as threads:
        taken = Counter(subject for some in threads.map(take, range(6)) for subject in some)
    assert len(taken) == 60
    assert set(taken.values()) == {1}


def test_a_vector_never_lands_on_a_version_that_it_was_not_made_from(opening):
    stores = [opening(log_reads=False) for _ in range(2)]
    meaning = Meaning(stores[1], FakeEmbedder())
    hand = Hand(stores[0], ALICE)
    done = threading.Event()

    def embed():
        while not done.is_set():
            meaning.catch_up()

    with ThreadPoolExecutor(1) as threads:
        embedding = threads.submit(embed)
        for number in range(150):
            hand.set(f"k{number % 3}", f"value {number}")
        done.set()
        embedding.result()
    meaning.catch_up()
    with stores[0].engine.read() as session:
        rows = session.all(
            "SELECT v.version AS made, f.version AS now"
            " FROM vector v JOIN fact f ON f.id = v.subject"
        )
    assert len(rows) == 3
    assert all(row["made"] == row["now"] for row in rows)


def test_a_retry_that_overtakes_its_first_try_is_applied_once(opening):
    stores = [opening(log_reads=False) for _ in range(2)]
    write = FactWrite(namespace="default", key="k", value="v", idempotency_key="once")
    with ThreadPoolExecutor(6) as threads:
        facts = list(threads.map(lambda n: stores[n % 2].fact_set(ALICE, write), range(6)))
    assert {fact.version for fact in facts} == {1}


def test_what_commits_late_is_told_before_what_came_after_it(opening):
    """The first of two writers takes its number first and commits last."""
    first, second = opening(log_reads=False), opening(log_reads=False)
    started, go_on = threading.Event(), threading.Event()
    Hand(second, ALICE).set("before")

    def late(session):
        append(session, Entry(at=0, namespace="default", kind="set", caller=ALICE, key="late"))
        started.set()
        assert go_on.wait(WAIT_SECONDS)

    def settled():
        with second.engine.read() as session:
            return second.engine.last_settled_event(session)

    before = settled()
    with ThreadPoolExecutor(1) as threads:
        writing = threads.submit(first.engine.write, late, ())
        assert started.wait(WAIT_SECONDS)
        Hand(second, ALICE).set("after")
        assert settled() == before
        go_on.set()
        writing.result()
    wait_for(lambda: settled() > before)
    feed = second.event_follow(before)
    assert [event.key for event in feed.events] == ["late", "after"]


def test_events_of_a_database_that_moved_to_a_new_server_go_on_counting(url, opening):
    store = opening(log_reads=False)
    Hand(store, ALICE).set("k")
    store.close()
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE memory_bridge.event SET id = id + (1::bigint << 50)")
    moved = opening(log_reads=False)
    old = Hand(moved, ALICE).events()[0].id
    Hand(moved, ALICE).set("k", "2")
    newest = Hand(moved, ALICE).events()[0]
    assert newest.id > old
    assert newest.version == 2
    assert moved.event_follow(None).after == newest.id


def test_stores_that_open_a_new_database_at_once_all_do(url):
    def open_and_write(number):
        engine = PostgresEngine(url)
        ensure_words(engine)
        store = SqlStore(engine, log_reads=False)
        Hand(store, ALICE).set(f"k{number}")
        store.close()

    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(open_and_write, range(THREADS)))
    store = SqlStore(PostgresEngine(url))
    assert len(Hand(store, ALICE).keys()) == THREADS
    store.close()


def test_a_held_lock_makes_writes_wait_and_the_impatient_fail(opening):
    holder, impatient, patient = opening(), opening(busy_timeout_ms=50), opening()
    with ThreadPoolExecutor(2) as threads:
        holding = threads.submit(holder.lock_hold, 1.0)
        with psycopg.connect(shared_server().url()) as connection:
            wait_for(
                lambda: connection.execute(
                    "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock'"
                ).fetchone()
            )
        waiting = threads.submit(Hand(patient, ALICE).set, "k")
        with pytest.raises(Busy):
            Hand(impatient, ALICE).set("k")
        assert not waiting.done()
        assert Hand(impatient, ALICE).get("k") is None
        assert holding.result() >= 1.0
        assert waiting.result().version == 1


def test_closing_does_not_wait_for_a_lock_of_others(opening):
    holder, closing = opening(), opening(busy_timeout_ms=60_000, log_reads=False)
    with ThreadPoolExecutor(2) as threads:
        holding = threads.submit(holder.lock_hold, 4.0)
        with psycopg.connect(shared_server().url()) as connection:
            wait_for(
                lambda: connection.execute(
                    "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock'"
                ).fetchone()
            )
        waiting = threads.submit(Hand(closing, ALICE).set, "k")
        wait_for(lambda: closing.engine._locking)
        closing.stop_waiting(0.0)
        with pytest.raises(Busy):
            waiting.result(timeout=3)
        assert not holding.done()


def test_a_key_that_no_index_takes_is_refused_with_a_sentence(opening):
    store = opening(log_reads=False)
    with pytest.raises(Invalid, match=r"too long for Postgres"):
        store.engine.write(
            lambda session: session.run(
                "INSERT INTO namespace (name) VALUES (:name)",
                name="".join(map(chr, range(0x4E00, 0x4E00 + 5000))),
            )
        )


def test_of_many_writes_at_once_those_that_fail_take_no_other_with_them(opening):
    store = opening(log_reads=False)
    too_long = "".join(map(chr, range(0x4E00, 0x4E00 + 5000)))

    def name(text):
        return lambda session: session.later("INSERT INTO namespace (name) VALUES (:n)", n=text)

    def give_up(_session):
        raise Conflict("not today")

    jobs = [name("one"), name(too_long), give_up, name("two")]
    answers = store.engine.write_each(jobs, [()] * len(jobs))
    assert [type(answer) for answer in answers] == [type(None), Invalid, Conflict, type(None)]
    with store.engine.read() as session:
        rows = session.all("SELECT name FROM namespace ORDER BY name")
    assert [row["name"] for row in rows] == ["one", "two"]


def test_what_a_write_asked_ahead_is_asked_again_once_it_wrote(opening):
    store = opening(log_reads=False)
    writes = [FactWrite(key=key, value=value) for key, value in ("a1", "b1", "a2", "a3")]
    outcomes = store.fact_set_many(ALICE, writes)
    assert [outcome.fact.version for outcome in outcomes] == [1, 1, 2, 3]
    assert [event.key for event in Hand(store, ALICE).events()] == ["a", "a", "b", "a"]


def test_vectors_go_in_and_come_out_as_the_same_bytes(opening):
    store = opening(log_reads=False)
    meaning = Meaning(store, FakeEmbedder())
    Hand(store, ALICE).set("k", "some words")
    meaning.catch_up()
    with store.engine.read() as session:
        row = session.one("SELECT embedding FROM vector")
    assert row["embedding"] == meaning.embedder.embed(["k: some words"])[0] or (
        row["embedding"] == meaning.embedder.embed(["some words"])[0]
    )


@pytest.fixture(scope="module")
def own_server():
    """A server that a test may stop, and that asks some users for a password."""
    server = PostgresServer()
    yield server
    server.remove()


def test_a_server_that_comes_back_is_used_again(own_server):
    store = SqlStore(PostgresEngine(own_server.new_database()), log_reads=False)
    hand = Hand(store, ALICE)
    hand.set("k", "1")
    own_server.stop()
    with pytest.raises(Unavailable) as error:
        hand.set("k", "2")
    assert error.value.retryable
    own_server.start()

    def answers():
        try:
            return hand.get("k").value == "1"
        except Unavailable:
            return False

    wait_for(answers)
    hand.set("k", "3")
    assert store.event_follow(None, wait_seconds=0).after > 0
    store.close()


def test_connections_that_died_while_nobody_used_them_are_passed_by(own_server):
    url = own_server.new_database()
    store = SqlStore(PostgresEngine(url), log_reads=False)
    hand = Hand(store, ALICE)
    hand.set("k")
    own_server.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        f" WHERE datname = '{url.rpartition('/')[2]}'"
    )
    assert hand.get("k").version == 1
    assert hand.set("k").version == 2
    store.close()


def test_an_unreachable_server_is_a_sentence():
    with pytest.raises(Unavailable, match=r"'memory' on 127\.0\.0\.1 cannot be opened: .*refused"):
        PostgresEngine("postgresql://somebody:hunter2@127.0.0.1:1/memory")


def test_a_wrong_password_is_a_sentence_without_it(own_server):
    own_server.execute("CREATE ROLE guarded LOGIN PASSWORD 'right'")
    own_server.ask_for_passwords("guarded")
    address = own_server.url(user="guarded:hunter2")
    with pytest.raises(Unavailable, match=r"password authentication failed") as error:
        PostgresEngine(address)
    assert "hunter2" not in str(error.value)


def test_a_database_that_is_not_there_is_a_sentence():
    with pytest.raises(Unavailable, match=r"'nowhere' .* does not exist"):
        PostgresEngine(shared_server().url("nowhere"))


def test_what_is_no_address_is_a_sentence_that_does_not_repeat_it():
    with pytest.raises(Unavailable, match=r"write it as postgresql://") as error:
        PostgresEngine("postgresql://user:hunter2@[::1/memory")
    assert "hunter2" not in str(error.value)


def test_a_server_without_the_vector_extension_is_a_sentence(without_vector):
    with pytest.raises(Unavailable, match=r"has no pgvector; install the extension 'vector'"):
        PostgresEngine(without_vector)


@pytest.fixture
def without_vector(own_server):
    """A user who may make a schema and no extension stands for a server that has none."""
    url = own_server.new_database()
    name = url.rpartition("/")[2]
    own_server.execute(f"CREATE ROLE plain LOGIN; GRANT CREATE ON DATABASE {name} TO plain")
    return own_server.url(name, user="plain")


def test_a_database_in_another_encoding_is_refused(own_server):
    own_server.execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    with pytest.raises(Unavailable, match=r"does not keep text as UTF-8"):
        PostgresEngine(own_server.url("latin"))


def test_a_schema_from_a_newer_version_is_refused(url):
    PostgresEngine(url).close()
    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO memory_bridge.schema_version VALUES (9999)")
    with pytest.raises(SchemaTooNew, match="9999"):
        PostgresEngine(url)


def test_a_failed_migration_leaves_nothing_behind(url):
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA memory_bridge")
        connection.execute("CREATE TABLE memory_bridge.token_secret ()")
        with pytest.raises(psycopg.errors.DuplicateTable):
            PostgresEngine(url)
        connection.execute("DROP TABLE memory_bridge.token_secret")
    PostgresEngine(url).close()


def test_other_programs_tables_are_left_alone(url):
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE event (mine text); INSERT INTO event VALUES ('kept')")
        store = SqlStore(PostgresEngine(url), log_reads=False)
        Hand(store, ALICE).set("k")
        store.close()
        assert connection.execute("SELECT mine FROM event").fetchall() == [("kept",)]


def test_the_service_starts_on_the_address_in_a_file_and_says_what_is_wrong(tmp_path):
    address = tmp_path / "address"
    address.write_text("postgresql://somebody:hunter2@127.0.0.1:1/memory\n")
    done = subprocess.run(
        [sys.executable, "-m", "memory_store.main"],
        env={"MCP_DATABASE_URL_FILE": str(address), "MCP_STORE_SECRET": "s" * 16},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 1
    assert "cannot be opened" in done.stderr
    assert "hunter2" not in done.stderr
    assert "Traceback" not in done.stderr
