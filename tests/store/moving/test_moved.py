"""A memory that moved is the same memory in another database."""

import hashlib
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from fakes import FakeEmbedder
from memory_store.contract import Conflict, FactWrite, TokenGrant
from memory_store.moving import TABLES
from memory_store.operations.check import check
from memory_store.operations.migrate import migrate
from store.holders import Hand, Meaning
from store.moves import contents, file_end, last_numbers, server_end, tables_of
from store.whole import ALICE, BOB, NAMESPACES, exported, silent

SOUGHT = ["plain", "word7 word150", "ไทย", "stays"]
DERIVED = {
    "sqlite": {"fact_words", "fact_vocabulary", "index_state", "vector_log"},
    "postgres": {"fact_word", "index_state", "event_numbering", "schema_version"},
}
"""Tables that are made from others, or are about the database itself."""


def sides(end, clock, question):
    """What a store there answers to a question."""
    with closing(end.store(clock=clock)) as store:
        return question(store)


def test_every_row_of_every_table_moves(moved, origin, destination):
    report = moved()

    assert report.is_good
    before, after = contents(origin), contents(destination)
    assert after == before
    assert all(before.values())
    assert {table.name: table.origin.rows for table in report.tables} == {
        name: len(rows) for name, rows in before.items()
    }
    assert f"vector: {len(before['vector'])} rows, checksum " in "\n".join(report.sentences())


def test_what_is_derived_is_made_and_agrees(moved, destination):
    moved()
    with closing(destination.engine()) as engine:
        assert check(engine, silent()).findings == ()


def test_facts_versions_and_the_trail_go_on(moved, origin, destination, clock):
    moved()
    newest = max(row["id"] for row in contents(origin)["event"])
    numbers = sides(origin, clock, lambda store: last_numbers(store.engine))
    with closing(destination.store(clock=clock)) as store:
        alice = Hand(store, ALICE)
        followed = store.event_follow(newest, wait_seconds=0)
        assert (followed.events, followed.after) == ((), newest)
        assert alice.set("the last number", "again").version == 2
        assert alice.set("plain", "again").version == 4
        (first, second) = store.event_follow(newest, wait_seconds=10).events
        after = tables_of(store.engine)

    assert newest < first.id < second.id
    assert (first.key, second.key) == ("the last number", "plain")
    assert max(row["id"] for row in after["fact"]) > numbers["fact"]
    assert max(row["sequence"] for row in after["change"]) > numbers["change"]


def test_events_are_numbered_beyond_those_of_another_server(moved, origin, destination, clock):
    far = 2**60
    with closing(origin.engine()) as engine:
        engine.write(lambda session: session.run("UPDATE event SET id = id + :far", far=far))
    moved()
    with closing(destination.store(clock=clock)) as store:
        newest = store.event_follow(None).after
        Hand(store, ALICE).set("new")
        (event,) = store.event_follow(newest, wait_seconds=10).events

    assert far < newest < event.id


@pytest.mark.parametrize("mode", ["hybrid", "semantic", "lexical"])
def test_searches_find_the_same_with_the_same_scores(moved, ends, clock, mode):
    moved()

    def hits(store):
        queries = [Meaning(store, FakeEmbedder()).query(words) for words in SOUGHT]
        return [
            hit
            for query in queries
            for namespace in NAMESPACES
            for hit in Hand(store, ALICE, namespace).search(**query, mode=mode, limit=10).hits
        ]

    before, after = (sides(end, clock, hits) for end in ends)
    assert [hit.fact for hit in after] == [hit.fact for hit in before]
    assert [hit.score for hit in after] == pytest.approx([hit.score for hit in before], abs=1e-5)
    assert before


def test_an_export_of_either_is_the_same(moved, ends, clock):
    moved()
    one, other = (sides(end, clock, lambda store: exported(store, clock)) for end in ends)

    assert one.getvalue() == other.getvalue()


def test_tokens_prove_what_they_did(moved, memory, destination, clock):
    moved()
    with closing(destination.store(clock=clock)) as store:
        verified = {name: store.token_verify(digest) for name, digest in memory.digests.items()}
        assert verified["plain"].namespaces == ("default", "work/💼")
        assert verified["rotated"] == verified["new"]
        assert verified["revoked"] is None
        clock.advance(1001)
        assert store.token_verify(memory.digests["rotated"]) is None
        with pytest.raises(Conflict, match=r"was given to a token before"):
            store.token_create(ALICE, TokenGrant(name="revoked", scopes=("read",)))


def test_a_retry_after_the_move_is_answered_as_before(moved, destination, clock):
    moved()
    with closing(destination.store(clock=clock)) as store:
        write = FactWrite(key="once", value="only", idempotency_key="retried")
        assert store.fact_set(ALICE, write).version == 1
        assert Hand(store, BOB).delete("once", idempotency_key="gone").version == 1
        assert Hand(store, ALICE).get("once") is None


def test_what_awaits_its_embedding_gets_it(moved, destination, clock):
    moved()
    clock.advance(3600)
    with closing(destination.store(clock=clock)) as store:
        assert store.stats().backlog.failed == 1
        assert Meaning(store, FakeEmbedder()).catch_up() >= 3
        assert store.stats().backlog.pending == 0
        assert Hand(store, ALICE).found(**Meaning(store, FakeEmbedder()).query("embedding pending"))


def test_there_and_back_again_is_the_same(url, tmp_path, filled_file, clock):
    first, server = file_end(Path(filled_file.origin)), server_end(url)
    last = file_end(tmp_path / "last.db")
    there = migrate(first.place, server.place, silent())
    back = migrate(server.place, last.place, silent())

    assert there.is_good
    assert back.is_good
    assert contents(first) == contents(last)
    numbers = [sides(end, clock, lambda store: last_numbers(store.engine)) for end in (first, last)]
    assert numbers[0] == numbers[1]
    assert [table.origin for table in there.tables] == [table.origin for table in back.tables]


def test_an_empty_memory_moves_too(ends, clock):
    origin, destination = ends
    with closing(origin.store(clock=clock)):
        pass
    assert migrate(origin.place, destination.place, silent()).is_good
    with closing(destination.store(clock=clock)) as store:
        assert Hand(store, ALICE).set("first").version == 1


def test_the_file_of_the_origin_keeps_its_bytes(url, file, filled_file):
    shutil.copy(filled_file.origin, file)
    before = hashlib.sha256(file.read_bytes()).digest()
    migrate(file_end(file).place, server_end(url).place, silent())

    assert hashlib.sha256(file.read_bytes()).digest() == before
    assert [path.name for path in file.parent.iterdir()] == ["memory.db"]


def test_what_a_killed_server_left_in_its_journal_moves_too(url, file, clock):
    with closing(file_end(file).store(clock=clock)) as store:
        Hand(store, ALICE).set("k")
        copies = {path.name: path.read_bytes() for path in file.parent.iterdir()}
        expected = tables_of(store.engine)
    assert "memory.db-wal" in copies
    for name, content in copies.items():
        file.with_name(name).write_bytes(content)
    migrate(file_end(file).place, server_end(url).place, silent())

    assert contents(server_end(url)) == expected


def test_no_table_is_forgotten(ends):
    moving = {table.name for table in TABLES}
    columns = []
    for end in ends:
        with closing(end.engine()) as engine:
            found = _columns(engine)
        assert set(found) - DERIVED[engine.name] == moving
        columns.append({name: found[name] for name in moving})
    assert columns[0] == columns[1]


def _columns(engine):
    with engine.read() as session:
        if engine.name == "sqlite":
            rows = session.all(
                "SELECT s.name AS name, p.name AS attribute FROM sqlite_schema s"
                " JOIN pragma_table_info (s.name) p WHERE s.type = 'table'"
                " AND s.name NOT LIKE 'sqlite~_%' ESCAPE '~'"
                " AND s.name NOT LIKE 'fact~_words~_%' ESCAPE '~'"
            )
        else:
            rows = session.all(
                "SELECT table_name AS name, column_name AS attribute"
                " FROM information_schema.columns WHERE table_schema = 'memory_bridge'"
            )
    tables = {}
    for row in rows:
        tables.setdefault(row["name"], set()).add(row["attribute"])
    return tables
