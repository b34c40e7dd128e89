"""Query vectors come in time or not at all, and a repeated query costs nothing."""

import threading

import pytest

from fakes import FakeEmbedder
from memory_embedder.client import LocalQueryEmbedder, NoEmbedder, VectorCache
from memory_embedder.contract import EmbedderUnavailable, QueryVector
from memory_embedder.onnx import OnnxEmbedder


def test_a_query_gets_its_vector_and_the_model_that_made_it():
    embedder = FakeEmbedder()
    embedded = LocalQueryEmbedder(embedder).query("where is the key?")
    assert embedded.vector == embedder.embed(["where is the key?"])[0]
    assert embedded.model == embedder.identity.id


def test_a_repeated_query_is_not_embedded_again():
    embedder = FakeEmbedder()
    queries = LocalQueryEmbedder(embedder)
    assert queries.query("again") == queries.query("again")
    assert embedder.embedded == ["again"]


def test_what_was_asked_longest_ago_is_forgotten_first():
    embedder = FakeEmbedder()
    queries = LocalQueryEmbedder(embedder, cache_size=2)
    for text in ("a", "b", "a", "c", "a", "b"):
        queries.query(text)
    assert embedder.embedded == ["a", "b", "c", "b"]


def test_a_cache_never_exceeds_its_size():
    cache = VectorCache(3)
    for number in range(100):
        cache.put(str(number), QueryVector(b"", "model"))
    assert len(cache._vectors) == 3


def test_a_late_vector_is_refused_but_serves_the_next_one_who_asks():
    gate = threading.Event()
    embedder = FakeEmbedder(gate=gate)
    queries = LocalQueryEmbedder(embedder, deadline_seconds=0.05)
    with pytest.raises(EmbedderUnavailable, match="still loading"):
        queries.query("early")
    gate.set()
    patient = LocalQueryEmbedder(embedder, deadline_seconds=10)
    patient._thread, patient._cache = queries._thread, queries._cache
    assert patient.query("other")
    assert patient.query("early")
    assert embedder.embedded.count("early") == 1


def test_queries_given_up_while_the_model_loads_are_not_embedded_afterwards():
    gate = threading.Event()
    embedder = FakeEmbedder(gate=gate)
    queries = LocalQueryEmbedder(embedder, deadline_seconds=0.02)
    for text in ("loads", "given up", "given up too"):
        with pytest.raises(EmbedderUnavailable):
            queries.query(text)
    gate.set()
    queries._thread.shutdown(wait=True)
    assert embedder.embedded == ["loads"]


def test_a_slow_embedder_that_has_loaded_is_said_to_be_slow():
    embedder = FakeEmbedder()
    queries = LocalQueryEmbedder(embedder, deadline_seconds=0.05)
    queries._embed("warm")
    embedder.gate = threading.Event()
    with pytest.raises(EmbedderUnavailable, match=r"longer than 0\.05 seconds"):
        queries.query("slow")
    embedder.gate.set()


def test_a_missing_model_says_so():
    queries = LocalQueryEmbedder(FakeEmbedder(unavailable="Run the set-up."))
    with pytest.raises(EmbedderUnavailable, match=r"Run the set-up\."):
        queries.query("anything")
    assert queries.trouble() == "Run the set-up."
    assert queries.conditions() == {"model": "down"}


def test_a_model_is_known_to_work_once_it_has():
    queries = LocalQueryEmbedder(FakeEmbedder(), deadline_seconds=30)
    assert queries.conditions() == {"model": "unknown"}
    queries.query("anything")
    assert queries.conditions() == {"model": "ok"}


def test_a_failing_embedder_is_unavailable_and_leaks_nothing():
    queries = LocalQueryEmbedder(FakeEmbedder(fails_on="poison"))
    with pytest.raises(EmbedderUnavailable) as refusal:
        queries.query("poison")
    assert "poison" not in str(refusal.value)


def test_a_closed_embedder_refuses():
    queries = LocalQueryEmbedder(FakeEmbedder())
    queries.close()
    with pytest.raises(EmbedderUnavailable, match="closing"):
        queries.query("anything")


def test_no_embedder_gives_its_reason():
    queries = NoEmbedder("Embeddings are switched off.")
    with pytest.raises(EmbedderUnavailable, match="switched off"):
        queries.query("anything")


def test_a_query_of_ten_thousand_characters_is_embedded(embedder: OnnxEmbedder):
    queries = LocalQueryEmbedder(embedder, deadline_seconds=30)
    assert len(queries.query("where is it? " * 770).vector) == embedder.identity.dimension * 4
