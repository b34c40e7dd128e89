"""The embedder that runs any model of sentence-transformers, which brings torch along."""

import hashlib
import importlib
import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_embedder.contract import EmbedderUnavailable
from memory_embedder.models import file_hash
from memory_store.contract import ModelIdentity

if TYPE_CHECKING:
    from memory_embedder.tokens import Tokens

MODULES = "modules.json"
TOKENIZER = "tokenizer.json"
MEANINGFUL = (".bin", ".json", ".model", ".safetensors", ".txt")
"""The endings of the files that decide about vectors; the rest is about people."""
NOT_INSTALLED = (
    "The packages that run a model of sentence-transformers are not installed. Install "
    "mcp-memory-bridge[torch]; until then search is lexical."
)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Loaded:
    model: Any
    tokens: "Tokens"
    identity: ModelIdentity


class TransformerEmbedder:
    """`folders` are searched in order for the model `name`; nothing is ever downloaded."""

    def __init__(self, name: str, folders: Sequence[Path], threads: int = 1) -> None:
        self._name = name
        self._folders = folders
        self._threads = threads
        self._lock = threading.Lock()
        self._kept: _Loaded | None = None

    @property
    def identity(self) -> ModelIdentity:
        """Known only once the model is loaded, since the model knows its dimension."""
        return self._loaded().identity

    def windows(self, text: str) -> list[str]:
        return self._loaded().tokens.windows(text)

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        vectors = self._loaded().model.encode(
            list(texts), normalize_embeddings=True, show_progress_bar=False
        )
        return [vector.astype("<f4").tobytes() for vector in vectors]

    def _loaded(self) -> _Loaded:
        with self._lock:
            if self._kept is None:
                self._kept = _load(self._name, _find(self._name, self._folders), self._threads)
            return self._kept


def _find(name: str, folders: Sequence[Path]) -> Path:
    for folder in folders:
        if (place := folder / name).joinpath(MODULES).is_file():
            return place
    raise EmbedderUnavailable(
        f"No folder of models holds {name} as sentence-transformers keeps it, with a {MODULES}. "
        "Correct MCP_MODEL_DIR or MCP_EMBEDDING_MODEL; until then search is lexical."
    )


def _load(name: str, place: Path, threads: int) -> _Loaded:
    try:
        from memory_embedder.tokens import Tokens  # noqa: PLC0415  only a load may cost this

        importlib.import_module("torch").set_num_threads(threads)
        sentences = importlib.import_module("sentence_transformers")
        model = sentences.SentenceTransformer(str(place), device="cpu", local_files_only=True)
        tokens = Tokens(place / TOKENIZER, model.max_seq_length)
        return _Loaded(model, tokens, _identity(name, place, model))
    except ImportError:
        raise EmbedderUnavailable(NOT_INSTALLED) from None
    except Exception:
        log.exception("the model %s could not be loaded", name)
        raise EmbedderUnavailable(
            f"The model {name} could not be loaded; the log says why. Until then search is lexical."
        ) from None


def _identity(name: str, place: Path, model: Any) -> ModelIdentity:
    files = sorted(path for path in place.rglob("*") if path.suffix in MEANINGFUL)
    hashes = "".join(f"{path.relative_to(place)} {file_hash(path)}\n" for path in files)
    [vector] = model.encode([""], show_progress_bar=False)
    return ModelIdentity(
        name=name,
        digest=hashlib.sha256(hashes.encode()).hexdigest(),
        dimension=len(vector),
        pooling="own",
    )
