"""Search on Postgres: words rank as on SQLite, and the graph of vectors misses nothing."""

import pytest

from fakes import FakeEmbedder
from memory_store.contract import Caller, SearchQuery
from memory_store.postgres import PostgresEngine, vectors
from memory_store.settings import SettingsError, StoreSettings, read
from memory_store.store import SqlStore
from postgres_server import new_database
from store.holders import Hand, Meaning, open_sqlite

ALICE = Caller(principal="token:alice", source_client="alice")
WORDS = ["amber", "birch", "cedar", "delta", "ember", "flint", "grove", "heron", "iris", "jade"]
WORDS += ["kelp", "lotus", "maple", "north"]
LONG = " ".join(WORDS * 12)
QUERIES = ["amber birch", "cedar cedar delta", "north", "東京", "東", "grove* heron", "zebra iris"]


@pytest.fixture
def postgres():
    with new_database() as url:
        store = SqlStore(PostgresEngine(url), log_reads=False)
        yield store
        store.close()


@pytest.fixture
def sqlite(tmp_path):
    store = open_sqlite(tmp_path, log_reads=False)
    yield store
    store.close()


@pytest.fixture
def graph(monkeypatch):
    """Has every search by meaning take the graph, however few facts there are."""
    monkeypatch.setattr(vectors, "FEW", 1)


def fill(store):
    """Facts of different lengths in two namespaces, some replaced, some deleted."""
    for number in range(60):
        hand = Hand(store, ALICE, namespace="other" if number % 4 == 0 else "default")
        some = WORDS[number % 14 :] + WORDS[: number % 5] + ["東京都に住む"] * (number % 3)
        hand.set(f"k{number:02}", " ".join(some), tags=("even",) if number % 2 == 0 else ())
    hand = Hand(store, ALICE)
    hand.set("k01", "amber amber amber birch")
    hand.set("k02", LONG, tags=("even",))
    hand.delete("k05")


def ranked(store, text):
    query = SearchQuery(text=text, limit=20, mode="lexical")
    return [
        (hit.fact.key, pytest.approx(hit.score, rel=1e-5))
        for hit in store.fact_search(ALICE, query).hits
    ]


@pytest.mark.parametrize("query", QUERIES)
def test_words_rank_and_score_as_they_do_on_sqlite(postgres, sqlite, query):
    for store in (postgres, sqlite):
        fill(store)
    assert ranked(postgres, query) == ranked(sqlite, query)


@pytest.mark.usefixtures("graph")
@pytest.mark.parametrize(
    "filters", [{}, {"tags": ("even",)}, {"prefix": "k1"}, {"prefix": "k02"}, {"tags": ("odd",)}]
)
def test_the_graph_finds_the_best_of_what_a_filter_leaves(postgres, sqlite, filters):
    found = []
    for store in (postgres, sqlite):
        fill(store)
        meaning = Meaning(store, FakeEmbedder())
        meaning.catch_up()
        query = SearchQuery(
            **meaning.query("amber birch cedar"), mode="semantic", limit=5, **filters
        )
        hits = store.fact_search(ALICE, query).hits
        found.append([pytest.approx(hit.score, abs=1e-5) for hit in hits])
    assert found[0] == found[1]


@pytest.mark.usefixtures("graph")
def test_a_fact_of_many_windows_does_not_crowd_others_out(postgres):
    hand, meaning = Hand(postgres, ALICE), Meaning(postgres, FakeEmbedder())
    hand.set("long", " ".join(["amber birch"] * 600))
    for number in range(8):
        hand.set(f"short {number}", f"amber and {number} others")
    meaning.catch_up()
    with postgres.engine.read() as session:
        model = meaning.model
        query, *_ = meaning.embedder.embed(["amber birch"])
        where = vectors.Filter("f.namespace_id > 0")
        nearest = postgres.engine.vectors.nearest(session, 1, model, query, where, 9)
    assert len(nearest) == 9


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"memory_db": "a.db", "database_url": "postgresql://h/d"}, "A memory is in one place"),
        ({"database_url": "mysql://user:hunter2@h/d"}, "MCP_DATABASE_URL must be an address"),
        ({"database_url_file": "/nowhere/at/all"}, "MCP_DATABASE_URL_FILE must name a readable"),
    ],
)
def test_a_setting_that_names_no_database_is_refused(settings, sentence):
    with pytest.raises(SettingsError, match=sentence) as error:
        read(StoreSettings, **settings)
    assert "hunter2" not in str(error.value)


def test_a_file_that_is_named_in_person_wins_over_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("MCP_DATABASE_URL", "postgresql://h/d")
    settings = read(StoreSettings, memory_db=tmp_path / "mine.db", database_url=None)
    assert settings.database_url is None
    assert settings.place == str(tmp_path / "mine.db")
