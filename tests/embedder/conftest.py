"""The real model, prepared beforehand: a test that needs it fails with what to run."""

from collections.abc import Callable
from pathlib import Path

import pytest

from memory_embedder import models, settings
from memory_embedder.onnx import OnnxEmbedder


@pytest.fixture(scope="session")
def embedder() -> OnnxEmbedder:
    return OnnxEmbedder(models.DEFAULT_MODEL, settings.read().model_folders)


@pytest.fixture
def copied_model(tmp_path: Path) -> Callable[[], Path]:
    """Copies the prepared model into `tmp_path` and returns its folder; its graph is a link."""

    def copy() -> Path:
        model = models.find(models.DEFAULT_MODEL, settings.read().model_folders)
        place = tmp_path / models.DEFAULT_MODEL
        place.mkdir()
        for name in (models.TOKENIZER, models.MANIFEST):
            (place / name).write_bytes((model.folder / name).read_bytes())
        (place / models.GRAPH).symlink_to(model.folder / models.GRAPH)
        return place

    return copy
