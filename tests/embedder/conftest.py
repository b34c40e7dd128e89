"""The real model, prepared beforehand: a test that needs it fails with what to run."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from apart import SECRET, store_serving
from memory_embedder import models, settings
from memory_embedder.onnx import OnnxEmbedder
from memory_store.client import HttpStore
from redis_server import SERVERS
from worker_process import Stack


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


@pytest.fixture(params=SERVERS)
def stack(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stack]:
    with (
        request.param(tmp_path) as redis,
        store_serving(tmp_path / "memory.db") as serving,
        closing(HttpStore(serving.url, SECRET)) as store,
    ):
        yield Stack(redis, serving, store, tmp_path)
