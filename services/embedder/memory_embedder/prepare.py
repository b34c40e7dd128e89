"""Prepares the default model, once, without torch: `python -m memory_embedder.prepare [FOLDER]`."""

import argparse
import contextlib
import importlib
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from memory_embedder import models, settings
from memory_embedder.runtime import onnxruntime
from memory_embedder.session import Session
from memory_embedder.sources import SOURCES, PrepareError, fetch

quantization: Any = importlib.import_module("onnxruntime.quantization")  # it has no types

DIMENSION = 384
MAX_TOKENS = 256  # what the model was trained with; its tokenizer.json says 128
PROBES = ("The deploy key rotates every Friday.", "my cat sleeps on the warm radiator")
LEAST_COSINE = 0.95  # of the quantised graph to the published one; 0.97 and more is usual


def prepare(folder: Path, build: Callable[[Path, Path], None] | None = None) -> bool:
    """Puts the model into `folder`, or leaves it there if it is whole; returns whether it built.

    `build(scratch, model)` fills the folder `model`. Two that run at once both succeed.
    """
    place = models.place_of(models.DEFAULT_MODEL, folder)
    if models.is_valid(models.DEFAULT_MODEL, place):
        return False
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".preparing-") as name:
        scratch = Path(name)
        model = scratch / "model"
        model.mkdir()
        (build or build_default)(scratch, model)
        _put_in_place(model, place, scratch)
    return True


def _put_in_place(model: Path, place: Path, scratch: Path) -> None:
    for attempt in range(3):
        with contextlib.suppress(OSError):
            model.rename(place)
            return
        if models.is_valid(models.DEFAULT_MODEL, place):
            return  # another run was faster
        with contextlib.suppress(OSError):
            place.rename(scratch / f"broken-{attempt}")
    raise PrepareError(f"{place} cannot be replaced. Remove it and try again.")


def build_default(scratch: Path, model: Path) -> None:
    graph, tokenizer = fetch(SOURCES, scratch)
    shutil.copyfile(tokenizer, model / models.TOKENIZER)
    quantise(graph, scratch / "float.onnx", model / models.GRAPH)
    _compare(graph, model)
    (model / models.MANIFEST).write_text(_manifest(model).model_dump_json(indent=2) + "\n")


def quantise(published: Path, folded: Path, target: Path) -> None:
    """Makes a graph that computes in int8 of one that merely stores its weights so.

    Reduced range: with full-range weights, processors with and without VNNI disagree.
    """
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(folded)
    onnxruntime.InferenceSession(str(published), options, providers=["CPUExecutionProvider"])
    quantization.quantize_dynamic(
        folded,
        target,
        weight_type=quantization.QuantType.QInt8,
        per_channel=True,
        reduce_range=True,
        extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
    )


def _compare(published: Path, model: Path) -> None:
    tokenizer = model / models.TOKENIZER
    before = Session(published, tokenizer, MAX_TOKENS)
    after = Session(model / models.GRAPH, tokenizer, MAX_TOKENS)
    least = min(_cosine(before.vector(text), after.vector(text)) for text in PROBES)
    if least < LEAST_COSINE:
        raise PrepareError(
            f"The quantised model differs too much from the published one (cosine {least:.3f}); "
            f"onnxruntime {onnxruntime.__version__} cannot be used to prepare it."
        )


def _cosine(one: bytes, other: bytes) -> float:
    return float(np.frombuffer(one, "<f4") @ np.frombuffer(other, "<f4"))


def _manifest(model: Path) -> models.Manifest:
    versions = {source.package: source.version for source in SOURCES}
    tools = {"onnx": onnx.__version__, "onnxruntime": onnxruntime.__version__}
    return models.Manifest(
        name=models.DEFAULT_MODEL,
        dimension=DIMENSION,
        max_tokens=MAX_TOKENS,
        files={name: str(models.file_hash(model / name)) for name in models.FILES},
        built_with=versions | tools,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m memory_embedder.prepare")
    parser.add_argument("folder", nargs="?", type=Path, help="where models are kept")
    chosen: Path | None = parser.parse_args(arguments).folder
    try:
        folder = chosen or _default_folder()
        sys.stdout.write(f"Preparing {models.DEFAULT_MODEL} in {folder}\n")
        built = prepare(folder)
    except (PrepareError, settings.BadSetting, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write("The model is ready.\n" if built else "The model was ready already.\n")
    return 0


def _default_folder() -> Path:
    for folder in settings.read().model_folders:
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK):
                return folder
    raise PrepareError(
        "No folder for models can be written to. "
        "Name one: `python -m memory_embedder.prepare FOLDER`."
    )


if __name__ == "__main__":
    logging.disable(logging.WARNING)  # the quantiser recommends a step that changes nothing here
    sys.exit(main())
