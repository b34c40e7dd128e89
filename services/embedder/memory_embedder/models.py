"""A model is a folder of files with a manifest: where it is found and how it is verified."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from memory_embedder.contract import EmbedderUnavailable
from memory_store.contract import ModelIdentity

DEFAULT_MODEL = "all-MiniLM-L6-v2"
GRAPH = "model.onnx"
TOKENIZER = "tokenizer.json"
MANIFEST = "manifest.json"
FILES = (GRAPH, TOKENIZER)
CORRECT = (
    "Correct the manifest, or remove the folder and prepare the model anew; until then search is "
    "lexical."
)
PREPARE = "Run `python -m memory_embedder.prepare` once; until then search is lexical."


class Manifest(BaseModel):
    """What a folder says of its model. `files` maps a file's name to its SHA-256.

    `built_with` names the packages, with their versions, that the files were made from and by.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    dimension: int
    pooling: Literal["mean"] = "mean"
    max_tokens: int = Field(ge=1, le=32_768)
    files: dict[str, str]
    built_with: dict[str, str]


@dataclass(frozen=True)
class Model:
    folder: Path
    manifest: Manifest

    @property
    def identity(self) -> ModelIdentity:
        """Made from the manifest alone: no file is read, none is verified."""
        hashes = "".join(self.manifest.files[name] for name in FILES)
        return ModelIdentity(
            name=self.manifest.name,
            digest=hashlib.sha256(hashes.encode()).hexdigest(),
            dimension=self.manifest.dimension,
            pooling=self.manifest.pooling,
        )

    def verify(self) -> None:
        """Raises `EmbedderUnavailable` unless every file is what the manifest says."""
        for name, expected in self.manifest.files.items():
            if file_hash(self.folder / name) != expected:
                raise EmbedderUnavailable(
                    f"The file {name} of the model {self.manifest.name} is missing or not the one "
                    f"that was prepared. {PREPARE}"
                )


def find(name: str, folders: Sequence[Path]) -> Model:
    """Returns the first model of that name; its files are not verified yet.

    Raises `EmbedderUnavailable`. Another model is never taken instead.
    """
    for folder in folders:
        place = place_of(name, folder)
        if (place / MANIFEST).is_file():
            return read(name, place)
    raise EmbedderUnavailable(
        f"The model {name} is not prepared on this machine; where MCP_MODEL_DIR is set, only that "
        f"folder is looked in. {PREPARE}"
    )


def place_of(name: str, folder: Path) -> Path:
    """Returns the folder itself if it is a model's, otherwise the one within it."""
    return folder if (folder / MANIFEST).is_file() else folder / name


def read(name: str, place: Path) -> Model:
    """Returns the model that lies there. Raises `EmbedderUnavailable` if it is not that one."""
    try:
        manifest = Manifest.model_validate_json((place / MANIFEST).read_bytes())
    except (OSError, ValidationError):
        raise EmbedderUnavailable(
            f"The manifest of the model {name} cannot be read. {PREPARE}"
        ) from None
    if manifest.name != name:
        raise EmbedderUnavailable(
            f"The folder of the model {name} holds {manifest.name}. Correct MCP_MODEL_DIR or "
            "MCP_EMBEDDING_MODEL; until then search is lexical."
        )
    if missing := set(FILES) - set(manifest.files):
        raise EmbedderUnavailable(
            f"The manifest of the model {name} lacks {', '.join(sorted(missing))}. {PREPARE}"
        )
    return Model(place, manifest)


def is_valid(name: str, place: Path) -> bool:
    try:
        read(name, place).verify()
    except EmbedderUnavailable:
        return False
    return True


def file_hash(file: Path) -> str | None:
    """Returns the SHA-256 of a file in hexadecimal, None if it cannot be read."""
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return None
