"""The real model: what its vectors are, how it is loaded, what it costs."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil
import pytest

import memory_embedder
from memory_embedder import models, session
from memory_embedder.contract import EmbedderUnavailable
from memory_embedder.onnx import OnnxEmbedder

TOPICS = ("invoices", "gardening", "chess openings", "sourdough", "sailing knots", "tax law")
VERBS = ("starts with", "often mentions", "never covers", "ends with", "compares")


def cosine(one: bytes, other: bytes) -> float:
    return float(np.frombuffer(one, "<f4") @ np.frombuffer(other, "<f4"))


def filler(characters: int) -> str:
    lines = (
        f"Chapter {i} on {TOPICS[i % len(TOPICS)]} {VERBS[i % len(VERBS)]} example {i * 7}."
        for i in range(characters)
    )
    return " ".join(lines)[:characters]


def test_a_vector_is_normalised_float32_of_the_identity_s_dimension(embedder: OnnxEmbedder):
    [vector] = embedder.embed(["a fact"])
    assert len(vector) == embedder.identity.dimension * 4
    assert cosine(vector, vector) == pytest.approx(1.0, abs=1e-5)


def test_a_paraphrase_is_nearer_than_another_matter(embedder: OnnxEmbedder):
    fact, paraphrase, other = embedder.embed(
        ["The cat sleeps on the sofa.", "A kitten naps upon the couch.", "Invoices are due in May."]
    )
    assert cosine(fact, paraphrase) > 0.5 > cosine(fact, other)


def test_a_text_s_vector_does_not_depend_on_its_neighbours(embedder: OnnxEmbedder):
    texts = ["short", filler(3000), "", "記憶", "middling " * 40]
    together = embedder.embed(texts)
    assert together == [embedder.embed([text])[0] for text in texts]
    assert together[::-1] == embedder.embed(texts[::-1])


def test_what_the_model_cannot_read_is_cut_off_and_the_end_mark_kept(embedder: OnnxEmbedder):
    # One-token words: 254 of them and the two marks are all that the model reads.
    whole, longer, shorter = embedder.embed(["word " * 254, "word " * 2000, "word " * 200])
    assert whole == longer
    assert whole != shorter


def test_the_last_sentence_of_a_long_text_is_found_in_its_last_window(embedder: OnnxEmbedder):
    text = filler(4000) + " The spare key of the boat house hangs behind the blue barometer."
    [query] = embedder.embed(["where is the key for the boat house?"])
    windows = embedder.embed(embedder.windows(text))
    nearest = max(range(len(windows)), key=lambda i: cosine(query, windows[i]))
    assert nearest == len(windows) - 1
    assert cosine(query, windows[-1]) > cosine(query, embedder.embed([text])[0]) + 0.1


def test_however_many_threads_ask_the_model_is_loaded_once(monkeypatch, embedder: OnnxEmbedder):
    opened, real = list[Path](), session.Session

    def counting(graph: Path, *others):
        opened.append(graph)
        return real(graph, *others)

    monkeypatch.setattr(session, "Session", counting)
    fresh = OnnxEmbedder(embedder._name, embedder._folders)
    together = threading.Barrier(8)

    def ask(_: int) -> bytes:
        together.wait()
        return fresh.embed(["hello"])[0]

    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(ask, range(8)))) == 1
    assert len(opened) == 1


def test_the_identity_is_known_before_anything_is_loaded(embedder: OnnxEmbedder):
    fresh = OnnxEmbedder(embedder._name, embedder._folders)
    assert fresh.identity == embedder.identity
    assert fresh._session is None


@pytest.mark.parametrize("threads", [1, 2])
def test_the_number_of_threads_does_not_change_vectors(embedder: OnnxEmbedder, threads: int):
    other = OnnxEmbedder(embedder._name, embedder._folders, threads)
    text = filler(600)
    assert cosine(other.embed([text])[0], embedder.embed([text])[0]) > 0.9999


def test_a_tampered_model_is_refused_and_a_mended_one_taken(copied_model: Callable[[], Path]):
    place = copied_model()
    tokenizer = place / models.TOKENIZER
    content = tokenizer.read_bytes()
    tokenizer.write_bytes(content.replace(b'"the"', b'"eht"', 1))
    embedder = OnnxEmbedder(models.DEFAULT_MODEL, [place.parent])
    with pytest.raises(EmbedderUnavailable, match=r"tokenizer\.json"):
        embedder.embed(["hello"])
    tokenizer.write_bytes(content)
    assert embedder.embed(["hello"])


def test_another_build_of_a_broken_model_is_taken_under_its_own_identity(
    copied_model: Callable[[], Path],
):
    place = copied_model()
    tokenizer = place / models.TOKENIZER
    tokenizer.write_bytes(tokenizer.read_bytes() + b"\n")
    embedder = OnnxEmbedder(models.DEFAULT_MODEL, [place.parent])
    former = embedder.identity
    with pytest.raises(EmbedderUnavailable):
        embedder.embed(["hello"])
    describe(place)
    assert embedder.embed(["hello"])
    assert embedder.identity != former


def describe(place: Path, **otherwise: int) -> None:
    """Writes the manifest anew, for the files as they are."""
    manifest = models.read(models.DEFAULT_MODEL, place).manifest
    files = {name: models.file_hash(place / name) for name in models.FILES}
    (place / models.MANIFEST).write_text(
        manifest.model_copy(update={"files": files, **otherwise}).model_dump_json()
    )


@pytest.mark.parametrize(
    ("otherwise", "sentence"),
    [
        ({"dimension": 100}, "makes vectors of 384 numbers, and its manifest says 100"),
        ({"max_tokens": 513}, "does not take texts of 513 tokens"),
        ({"max_tokens": 2}, "could not be loaded"),
        ({"max_tokens": 10**12}, "manifest of the model all-MiniLM-L6-v2 cannot be read"),
    ],
)
def test_a_manifest_that_the_graph_belies_is_told_before_the_first_vector(
    copied_model: Callable[[], Path], otherwise: dict[str, int], sentence: str
):
    place = copied_model()
    describe(place, **otherwise)
    with pytest.raises(EmbedderUnavailable, match=sentence) as refusal:
        OnnxEmbedder(models.DEFAULT_MODEL, [place.parent]).embed(["hello"])
    assert str(place) not in str(refusal.value)


def test_a_model_that_is_prepared_later_is_found_later(
    copied_model: Callable[[], Path], tmp_path: Path
):
    embedder = OnnxEmbedder(models.DEFAULT_MODEL, [tmp_path])
    with pytest.raises(EmbedderUnavailable, match="not prepared"):
        _ = embedder.identity
    copied_model()
    assert embedder.identity.name == models.DEFAULT_MODEL


def test_a_graph_that_no_runtime_can_read_is_unavailable_and_leaks_nothing(
    copied_model: Callable[[], Path],
):
    place = copied_model()
    (place / models.GRAPH).unlink()
    (place / models.GRAPH).write_bytes(b"no graph")
    describe(place)
    with pytest.raises(EmbedderUnavailable, match="could not be loaded") as refusal:
        OnnxEmbedder(models.DEFAULT_MODEL, [place.parent]).embed(["hello"])
    assert str(place) not in str(refusal.value)


def test_a_short_text_is_not_kept_waiting_by_a_long_batch(embedder: OnnxEmbedder):
    pieces = [filler(1500)] * 60
    started = threading.Event()

    def bulk() -> None:
        started.set()
        embedder.embed(pieces)

    thread = threading.Thread(target=bulk)
    thread.start()
    started.wait(10)
    embedder.embed(["a query"])
    assert thread.is_alive()
    thread.join()


def test_embedding_again_and_again_does_not_grow_the_process(embedder: OnnxEmbedder):
    texts = [filler(1500)] * 8
    process = psutil.Process()
    embedder.embed(texts)
    before = process.memory_info().rss
    for _ in range(6):
        embedder.embed(texts)
    assert process.memory_info().rss - before < 30 * 2**20


def test_the_runtime_keeps_no_arena_at_its_peak():
    assert not session._options(threads=1).enable_cpu_mem_arena


OFFLINE = """
import sys
from memory_embedder import models, settings
from memory_embedder.onnx import OnnxEmbedder

def refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo"):
        raise SystemExit(f"{event} {arguments}")

sys.addaudithook(refuse)
OnnxEmbedder(models.DEFAULT_MODEL, settings.read().model_folders).embed(["hello"])
"""


def test_loading_and_embedding_need_no_network():
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


EMBED = """
import sys
from pathlib import Path

from memory_embedder import settings
from memory_embedder.onnx import OnnxEmbedder

read = settings.read()
OnnxEmbedder(read.embedding_model, read.model_folders).embed(["a text"])
"""
WITHOUT_A_PIPELINE = ("CI", "GITHUB_ACTIONS", "TF_BUILD", "JENKINS_URL", "BUILD_ID")


def test_embedding_leaves_nothing_in_the_home_folder(tmp_path):
    """onnxruntime would keep an identity of the device there, and reports that wait to be sent."""
    kept = {name: os.environ[name] for name in os.environ if name not in WITHOUT_A_PIPELINE}
    home = {"HOME": str(tmp_path), "USERPROFILE": str(tmp_path), "XDG_CACHE_HOME": ""}
    subprocess.run([sys.executable, "-c", EMBED], env=kept | home, check=True, timeout=60)

    assert list(tmp_path.rglob("*")) == []


def test_nothing_loads_onnxruntime_but_the_module_that_silences_it():
    package = Path(memory_embedder.__file__).parent
    loaders = {
        file.name
        for file in package.glob("*.py")
        if 'import_module("onnxruntime")' in file.read_text("utf-8")
        or re.search(r"^(from|import) onnxruntime", file.read_text("utf-8"), re.MULTILINE)
    }

    assert loaders == {"runtime.py"}
