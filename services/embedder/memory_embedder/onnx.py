"""The embedder that runs a prepared model in this process, loaded when it is first needed."""

import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from memory_embedder import models
from memory_embedder.contract import EmbedderUnavailable
from memory_store.contract import ModelIdentity

if TYPE_CHECKING:
    from memory_embedder.session import Session

log = logging.getLogger(__name__)


class OnnxEmbedder:
    """`folders` are searched in order for the model `name`; `threads` is 1 or 2.

    A failed load leaves nothing behind, so a model that is prepared later is found later.
    """

    def __init__(self, name: str, folders: Sequence[Path], threads: int = 1) -> None:
        self._name = name
        self._folders = folders
        self._threads = threads
        self._lock = threading.Lock()
        self._model: models.Model | None = None
        self._session: Session | None = None

    @property
    def identity(self) -> ModelIdentity:
        """Known without loading anything."""
        with self._lock:
            return self._found().identity

    def windows(self, text: str) -> list[str]:
        return self._loaded().windows(text)

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        session = self._loaded()
        return [session.vector(text) for text in texts]

    def _found(self) -> models.Model:
        if self._model is None:
            self._model = models.find(self._name, self._folders)
        return self._model

    def _loaded(self) -> "Session":
        if self._session is not None:
            return self._session
        with self._lock:
            if self._session is None:
                self._session = self._load()
            return self._session

    def _load(self) -> "Session":
        model = self._found()
        try:
            model.verify()
            session = _open(model, self._threads)
            _check(session, model.manifest)
        except EmbedderUnavailable:
            self._model = None
            raise
        return session


def _open(model: models.Model, threads: int) -> "Session":
    try:
        from memory_embedder.session import Session  # noqa: PLC0415 - only a load may cost this

        return Session(
            model.folder / models.GRAPH,
            model.folder / models.TOKENIZER,
            model.manifest.max_tokens,
            threads,
        )
    except ImportError:
        raise EmbedderUnavailable(
            "The packages that run a model are not installed. Install "
            "mcp-memory-bridge[embedder]; until then search is lexical."
        ) from None
    except Exception:
        log.exception("the model %s could not be loaded", model.manifest.name)
        raise EmbedderUnavailable(
            f"The model {model.manifest.name} could not be loaded; the log says why. "
            f"{models.PREPARE}"
        ) from None


def _check(session: "Session", stated: models.Manifest) -> None:
    """Raises `EmbedderUnavailable` unless the graph does what the manifest says."""
    try:
        dimension = session.dimension()
    except Exception:
        log.exception("the model %s failed on the longest text", stated.name)
        raise EmbedderUnavailable(
            f"The model {stated.name} does not take texts of {stated.max_tokens} tokens, as its "
            f"manifest says. {models.CORRECT}"
        ) from None
    if dimension != stated.dimension:
        raise EmbedderUnavailable(
            f"The model {stated.name} makes vectors of {dimension} numbers, and its manifest says "
            f"{stated.dimension}. {models.CORRECT}"
        )
