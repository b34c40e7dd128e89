"""What cannot be moved is refused, and what was not moved to the end was not moved at all."""

import math
import sqlite3
from array import array
from contextlib import closing

import psycopg
import pytest

from fakes import DIMENSION, FakeEmbedder
from memory_store import migrations
from memory_store.contract import Busy, Conflict, Invalid, NotFound, Unavailable
from memory_store.limits import Limits
from memory_store.migrations import Migration, SchemaTooNew
from memory_store.operations.migrate import migrate, rehearse
from memory_store.sqlite import NotOurs
from postgres_server import shared_server
from store.holders import Hand, Meaning
from store.moves import contents, file_end, server_end
from store.whole import ALICE, BOB, silent

ALTERING = {
    "postgres": (
        """
        CREATE FUNCTION alter_value () RETURNS trigger LANGUAGE plpgsql AS
          $$ BEGIN NEW.value := NEW.value || ' '; RETURN NEW; END $$
        """,
        """
        CREATE TRIGGER altering BEFORE INSERT ON fact_version
          FOR EACH ROW EXECUTE FUNCTION alter_value ()
        """,
    ),
    "sqlite": (
        """
        CREATE TRIGGER altering AFTER INSERT ON fact_version BEGIN
          UPDATE fact_version SET value = new.value || ' ' WHERE rowid = new.rowid;
        END
        """,
    ),
}
"""What has a database keep other values than those it is given."""


def test_a_target_that_holds_something_is_refused_and_kept(moved, destination, clock):
    with closing(destination.store(clock=clock)) as store:
        Hand(store, BOB).set("mine")
    before = contents(destination)
    with pytest.raises(Conflict, match=r"is not empty, it holds rows \(1 in namespace, 1 in fact_"):
        moved()

    assert contents(destination) == before


def test_a_target_where_a_server_was_merely_started_is_filled(moved, origin, destination, clock):
    with closing(destination.store(clock=clock)) as store:
        store.model_use(FakeEmbedder(name="another").identity)
    assert moved().is_good
    assert contents(destination) == contents(origin)


def test_a_running_server_on_the_memory_is_noticed(moved, origin, destination, clock):
    with closing(origin.store(clock=clock)) as store:
        store.stats()
        with pytest.raises(Busy, match=r"stop its server"):
            moved()
    assert moved().is_good
    assert contents(destination)["fact"]


def test_a_running_server_on_the_target_is_noticed(moved, destination, clock):
    with closing(destination.store(clock=clock)) as store:
        store.stats()
        with pytest.raises(Busy, match=r"stop its server"):
            moved()
    assert moved().is_good


def test_no_server_can_start_on_the_memory_while_it_moves(origin):
    with origin.place.origin() as before:
        _opening_is_refused(origin, before)


def _opening_is_refused(end, before):
    if end.place.name.endswith("memory.db"):
        path = end.place.name
        with (
            closing(sqlite3.connect(path, timeout=0)) as other,
            pytest.raises(sqlite3.OperationalError, match="locked"),
        ):
            other.execute("SELECT * FROM fact")
    else:
        with pytest.raises(Busy, match=r"is being moved; start again when it is done"):
            end.engine()
    assert before.session.one("SELECT count(*) AS n FROM fact")["n"]


def test_nothing_can_be_written_through_the_origin(origin):
    with origin.place.origin() as before, pytest.raises(Exception, match=r"read.?only"):
        before.session.run("DELETE FROM fact")


def test_a_difference_is_found_and_nothing_is_kept(moved, destination):
    with closing(destination.engine()) as engine:
        for statement in ALTERING[engine.name]:
            engine.write(lambda session, statement=statement: session.run(statement))
    report = moved()

    assert not report.is_good
    assert [table.name for table in report.tables if not table.is_same] == ["fact_version"]
    assert any(line.startswith("fact_version differs: ") for line in report.sentences())
    assert "nothing was moved" in report.sentences()[-1]
    assert not any(contents(destination).values())


@pytest.mark.parametrize("stage", ["copied", "words indexed", "compared"])
def test_what_is_interrupted_leaves_nothing_and_can_be_run_again(moved, origin, destination, stage):
    before = contents(origin)

    def interrupt(what, _done, _total):
        if what == stage:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        migrate(origin.place, destination.place, interrupt)
    assert contents(origin) == before
    assert moved().is_good
    assert contents(destination) == before


def test_an_interrupted_move_leaves_no_file_that_was_not_there(url, file, clock):
    def interrupt(*_progress):
        raise KeyboardInterrupt

    with closing(server_end(url).store(clock=clock)) as store:
        Hand(store, ALICE).set("k")
    with pytest.raises(KeyboardInterrupt):
        migrate(server_end(url).place, file_end(file).place, interrupt)
    assert list(file.parent.iterdir()) == []


def test_a_rehearsal_counts_and_makes_nothing(origin, destination, url, file):
    report = rehearse(origin.place, destination.place)

    assert report.rows["fact"] == len(contents(origin)["fact"])
    assert report.sentences()[0].startswith("would move 3 namespaces, ")
    if destination.place.name.endswith("memory.db"):
        assert not file.exists()
    else:
        with psycopg.connect(url) as connection:
            schemas = connection.execute("SELECT to_regnamespace('memory_bridge')").fetchone()
        assert schemas == (None,)


def test_a_rehearsal_refuses_what_the_move_would(origin, destination, clock):
    with closing(destination.store(clock=clock)) as store:
        Hand(store, BOB).set("mine")
        with pytest.raises(Busy):
            rehearse(origin.place, destination.place)
    with pytest.raises(Conflict):
        rehearse(origin.place, destination.place)


def newer(end):
    """Has the database say that a newer version wrote it."""
    with closing(end.engine()) as engine:
        kind = engine.name
    if kind == "sqlite":
        with closing(sqlite3.connect(end.place.name)) as connection:
            connection.execute("PRAGMA user_version = 99")
    else:
        with closing(end.engine()) as engine:
            engine.write(lambda session: session.run("INSERT INTO schema_version VALUES (99)"))


@pytest.mark.parametrize("side", [0, 1])
def test_what_a_newer_version_wrote_is_refused(moved, ends, side):
    newer(ends[side])
    with pytest.raises(SchemaTooNew, match=r"schema version 99, this program knows up to"):
        moved()


@pytest.mark.usefixtures("origin")
def test_what_an_earlier_version_wrote_is_not_changed_but_refused(moved, origin, monkeypatch):
    before = contents(origin)
    known = migrations.migrations

    def with_another(engine):
        return [*known(engine), Migration(2, "0002_next.sql", "SELECT 1;")]

    with monkeypatch.context() as patch:
        patch.setattr(migrations, "migrations", with_another)
        with pytest.raises(Invalid, match=r"earlier version; back it up, open it once"):
            moved()
    assert contents(origin) == before


def test_where_nothing_is_nothing_is_moved(ends):
    origin, destination = ends
    with pytest.raises(NotFound, match=r"there is no memory"):
        migrate(origin.place, destination.place, silent())


@pytest.mark.parametrize("side", ["origin", "destination"])
def test_a_file_of_another_program_is_refused(url, file, side):
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    ends = (file_end(file), server_end(url))
    one, other = ends if side == "origin" else ends[::-1]
    with closing(server_end(url).engine()), pytest.raises((NotOurs, Busy)):
        migrate(one.place, other.place, silent())
    with pytest.raises(NotOurs, match=r"another program"):
        migrate(one.place, other.place, silent())


def test_a_folder_is_no_target(url, tmp_path):
    with closing(server_end(url).engine()):
        pass
    with pytest.raises(NotOurs, match=r"is a folder; name a file in it"):
        migrate(server_end(url).place, file_end(tmp_path).place, silent())


def test_a_key_that_postgres_cannot_index_is_a_sentence(url, file, clock):
    allowed = Limits(key=4096, value=16)
    with closing(file_end(file).store(clock=clock, allowed=allowed)) as store:
        Hand(store, ALICE).set("".join(chr(0x4E00 + 5 * number) for number in range(4000)))
    with pytest.raises(Invalid, match=r"too long for Postgres, which takes about 2,700 bytes"):
        migrate(file_end(file).place, server_end(url).place, silent())
    assert not any(contents(server_end(url)).values())


def test_a_vector_that_postgres_does_not_take_is_a_sentence(url, file, clock):
    with closing(file_end(file).store(clock=clock)) as store:
        Hand(store, ALICE).set("k")
        Meaning(store, FakeEmbedder()).catch_up()
        nan = array("f", [math.nan] * DIMENSION).tobytes()
        store.engine.write(lambda session: session.run("UPDATE vector SET embedding = :n", n=nan))
    with pytest.raises(Invalid, match=r"does not take a row of vector: NaN not allowed in vector"):
        migrate(file_end(file).place, server_end(url).place, silent())


def test_a_user_who_may_make_nothing_is_a_sentence(url, file, clock):
    with closing(file_end(file).store(clock=clock)) as store:
        Hand(store, ALICE).set("k")
    shared_server().execute("CREATE ROLE onlooker LOGIN")
    with pytest.raises(Unavailable, match=r"cannot be prepared|has no pgvector"):
        migrate(
            file_end(file).place, server_end(url.replace("postgres@", "onlooker@")).place, silent()
        )
