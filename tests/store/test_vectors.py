"""The cosine index against brute force in float32, and under threads."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_store import vectors as module
from memory_store.vectors import VectorIndex, rescore

DIMENSION = 32
CLOSE = 0.01
"""How far a cosine from int8 may be from the true one."""


def unit_vectors(count, seed=0, dimension=DIMENSION):
    vectors = np.random.default_rng(seed).standard_normal((count, dimension))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype("<f4")


def true_cosines(model, query, allowed=None):
    """The model is a dict: subject → its windows as bytes."""
    asked = np.frombuffer(query, "<f4")
    return {
        subject: max(float(np.frombuffer(window, "<f4") @ asked) for window in windows)
        for subject, windows in model.items()
        if allowed is None or subject in allowed
    }


def assert_ranks(found, cosines, limit):
    """What was found is the best `limit`, best first, give or take what int8 rounds away."""
    expected = sorted(cosines.values(), reverse=True)[:limit]
    assert len({subject for subject, _ in found}) == len(found) == len(expected)
    assert [score for _, score in found] == pytest.approx(expected, abs=CLOSE)
    assert [cosines[subject] for subject, _ in found] == pytest.approx(expected, abs=2 * CLOSE)
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)


def filled(model, namespace="n", **options):
    index = VectorIndex(**options)
    index.load((namespace, subject, window) for subject in model for window in model[subject])
    return index


@pytest.fixture(scope="module")
def model():
    vectors = unit_vectors(3000)
    vectors[100:160] = vectors[0]  # duplicates
    return {subject: [vector.tobytes()] for subject, vector in enumerate(vectors)}


QUERIES = [vector.tobytes() for vector in unit_vectors(20, seed=1)]


@pytest.mark.parametrize("limit", [1, 10, 200])
def test_the_nearest_are_found_best_first(model, limit):
    index = filled(model)
    for query in QUERIES:
        assert_ranks(index.rank("n", query, limit), true_cosines(model, query), limit)


def test_the_top_is_exact_after_scoring_it_again(model):
    index = filled(model)
    for query in QUERIES:
        nearest = [subject for subject, _ in index.rank("n", query, 30)]
        scores = rescore(query, {subject: model[subject] for subject in nearest})
        cosines = true_cosines(model, query)
        assert scores == pytest.approx({subject: cosines[subject] for subject in nearest}, abs=1e-6)
        top = sorted(scores.values(), reverse=True)[:10]
        assert top == pytest.approx(sorted(cosines.values(), reverse=True)[:10], abs=1e-6)


def test_duplicates_are_all_found(model):
    found = filled(model).rank("n", model[0][0], 61)
    assert {subject for subject, _ in found} == {0, *range(100, 160)}


@pytest.mark.parametrize("share", [0.01, 0.5, 1])
def test_a_filter_applies_before_ranking(model, share):
    index = filled(model)
    chosen = np.random.default_rng(2).choice(3000, int(3000 * share), replace=False)
    allowed = set(chosen.tolist())
    for query in QUERIES:
        cosines = true_cosines(model, query, allowed)
        assert_ranks(index.rank("n", query, 20, allowed), cosines, 20)


@pytest.mark.parametrize("allowed", [[], [99_999], {-1}])
def test_a_filter_that_leaves_nothing_finds_nothing(model, allowed):
    index = filled(model)
    index.remove(5)
    assert index.rank("n", QUERIES[0], 10, allowed) == []


def test_a_subject_ranks_by_its_best_window():
    vectors = unit_vectors(900)
    model = {n: [vector.tobytes() for vector in vectors[9 * n : 9 * n + 9]] for n in range(100)}
    index = filled(model)
    for query in QUERIES:
        assert_ranks(index.rank("n", query, 10), true_cosines(model, query), 10)
        assert_ranks(index.rank("n", query, 5, [1, 2, 3]), true_cosines(model, query, {1, 2, 3}), 5)


def test_many_windows_at_the_top_do_not_crowd_out_others():
    vectors = unit_vectors(51)
    model = {n + 1: [vector.tobytes()] for n, vector in enumerate(vectors[1:])}
    model[0] = [vectors[0].tobytes()] * 500
    found = filled(model).rank("n", vectors[0].tobytes(), 20)
    assert_ranks(found, true_cosines(model, vectors[0].tobytes()), 20)


def test_a_scan_by_several_threads_finds_the_same(model, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 100)
    monkeypatch.setattr(module, "PARALLEL_FROM", 400)
    several, single = filled(model, threads=4), filled(model, threads=1)
    for query in QUERIES:
        for allowed in (None, range(500)):
            ranked = several.rank("n", query, 50, allowed)
            assert ranked == single.rank("n", query, 50, allowed)


def test_namespaces_do_not_mix():
    index = VectorIndex()
    one, other = (vector.tobytes() for vector in unit_vectors(2))
    index.load([("a", 1, one), ("b", 2, other), ("a", 3, other), ("b", 4, one)])
    assert {subject for subject, _ in index.rank("a", one, 10)} == {1, 3}
    assert {subject for subject, _ in index.rank("b", one, 10)} == {2, 4}


@pytest.mark.parametrize("limit", [0, -1])
def test_no_limit_no_answer(model, limit):
    assert filled(model).rank("n", QUERIES[0], limit) == []


def test_a_limit_beyond_the_size_gives_all(model):
    assert len(filled(model).rank("n", QUERIES[0], 10_000)) == 3000


def test_an_unknown_namespace_is_empty(model):
    assert VectorIndex().rank("n", QUERIES[0], 10) == []
    assert filled(model).rank("other", QUERIES[0], 10) == []


def test_another_dimension_is_refused_and_changes_nothing():
    index = VectorIndex()
    index.load([("n", 1, QUERIES[0])])
    short = unit_vectors(1, dimension=8)[0].tobytes()
    with pytest.raises(ValueError, match="8 dimensions"):
        index.put("n", 1, [short])
    with pytest.raises(ValueError, match="8 dimensions"):
        index.put("other", 2, [short])
    with pytest.raises(ValueError, match="8 dimensions"):
        index.rank("n", short, 1)
    assert index.rank("n", QUERIES[0], 5) == [(1, pytest.approx(1, abs=CLOSE))]


def test_loading_replaces_what_was_there_of_the_same_subjects():
    old, new, other = (vector.tobytes() for vector in unit_vectors(3))
    index = VectorIndex()
    index.load([("n", 1, old), ("n", 1, other), ("n", 2, other)])
    index.load([("m", 1, new), ("m", 1, old)])
    assert len(index) == 3
    assert [subject for subject, _ in index.rank("n", old, 5)] == [2]
    assert index.rank("m", new, 5) == [(1, pytest.approx(1, abs=CLOSE))]


def test_the_windows_of_a_subject_may_be_loaded_far_apart(monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 2)
    index = VectorIndex()
    index.put("n", 7, [QUERIES[3]])
    index.load(
        [("n", 7, QUERIES[0]), *(("n", n, QUERIES[2]) for n in range(5)), ("n", 7, QUERIES[1])]
    )
    assert len(index) == 7
    assert index.rank("n", QUERIES[0], 1)[0] == (7, pytest.approx(1, abs=CLOSE))
    assert index.rank("n", QUERIES[1], 1)[0] == (7, pytest.approx(1, abs=CLOSE))


POOL = [vector.tobytes() for vector in unit_vectors(12, seed=3)]
SUBJECTS = st.integers(0, 6)
WINDOWS = st.lists(st.sampled_from(POOL), max_size=3)
NAMESPACES = st.sampled_from("ab")
STEPS = st.one_of(
    st.tuples(st.just("put"), NAMESPACES, SUBJECTS, WINDOWS),
    st.tuples(st.just("remove"), SUBJECTS),
    st.tuples(st.just("load"), NAMESPACES, st.dictionaries(SUBJECTS, WINDOWS)),
    st.tuples(st.just("clear")),
)


def apply_to_model(model, step):
    match step:
        case "put", namespace, subject, windows:
            model.pop(subject, None)
            if windows:
                model[subject] = (namespace, windows)
        case "remove", subject:
            model.pop(subject, None)
        case "load", namespace, loaded:
            model.update({s: (namespace, windows) for s, windows in loaded.items() if windows})
        case _:
            model.clear()


def apply_to_index(index, step):
    match step:
        case "load", namespace, loaded:
            index.load((namespace, s, window) for s in loaded for window in loaded[s])
        case name, *arguments:
            getattr(index, name)(*arguments)


@given(st.lists(STEPS, max_size=30), st.sampled_from(POOL), st.none() | st.sets(SUBJECTS))
def test_any_sequence_of_changes_leaves_what_a_dict_would_hold(steps, query, allowed):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "COMPACTED_FROM", 1)
        index, model = VectorIndex(), {}
        for step in steps:
            apply_to_index(index, step)
            apply_to_model(model, step)
        assert len(index) == sum(len(windows) for _, windows in model.values())
        for namespace in "ab":
            held = {s: windows for s, (home, windows) in model.items() if home == namespace}
            cosines = true_cosines(held, query, allowed)
            for limit in (2, 10):
                assert_ranks(index.rank(namespace, query, limit, allowed), cosines, limit)


def test_a_vector_takes_less_than_a_kilobyte_however_often_it_is_replaced():
    index = VectorIndex()
    vectors = [vector.tobytes() for vector in unit_vectors(5000, dimension=384)]
    index.load(("n", subject, vector) for subject, vector in enumerate(vectors))
    for subject in range(0, 5000, 2):
        index.put("n", subject, [vectors[0]])
    assert len(index) == 5000
    assert index.bytes_used / len(index) < 1000


def test_an_index_of_which_most_was_removed_shrinks():
    vector = unit_vectors(1, dimension=384)[0].tobytes()
    index = VectorIndex()
    index.load(("n", subject, vector) for subject in range(5000))
    full = index.bytes_used
    for subject in range(4500):
        index.remove(subject)
    assert index.bytes_used < full / 2


def test_an_emptied_index_keeps_no_memory():
    index = VectorIndex()
    empty = index.bytes_used
    vector = unit_vectors(1, dimension=384)[0].tobytes()
    for subject in range(100):
        index.put(f"namespace {subject}", subject, [vector])
    for subject in range(100):
        index.remove(subject)
    assert len(index) == 0
    assert index.bytes_used < empty + 10_000  # the table of homes may stay grown


def test_readers_see_every_subject_while_others_replace_and_remove(monkeypatch):
    """Each subject always has the same vector, so a ranking without one saw half a change."""
    monkeypatch.setattr(module, "CHUNK", 64)
    monkeypatch.setattr(module, "PARALLEL_FROM", 64)
    vectors = [vector.tobytes() for vector in unit_vectors(600)]
    index = filled({subject: [vector] for subject, vector in enumerate(vectors[:400])})
    done = threading.Event()

    def change():
        for turn in range(1500):
            index.put("n", turn % 400, [vectors[turn % 400]])
            index.put("n", 400 + turn % 200, [vectors[400 + turn % 200]])
            index.remove(400 + (turn + 100) % 200)
        done.set()

    failures = []

    def read(subject):
        while not done.is_set():
            found = dict(index.rank("n", vectors[subject], 600))
            if not set(range(400)) <= set(found) or abs(found[subject] - 1) > CLOSE:
                failures.append(subject)

    threads = [threading.Thread(target=read, args=(subject,)) for subject in (7, 8, 9)]
    for thread in threads:
        thread.start()
    change()
    for thread in threads:
        thread.join()
    assert failures == []


def test_scoring_again_takes_the_best_window_and_skips_the_empty():
    one, other, query = (vector.tobytes() for vector in unit_vectors(3))
    scores = rescore(query, {1: [one, query], 2: [], 3: [other]})
    assert scores == pytest.approx({1: 1, 3: true_cosines({3: [other]}, query)[3]}, abs=1e-6)
    assert rescore(query, {}) == rescore(query, {2: []}) == {}
