"""Vectors for queries: from a model in this process, or from none. No ML package lives here."""

import logging
import threading
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor

from memory_embedder.contract import Condition, Embedder, EmbedderUnavailable, QueryVector

log = logging.getLogger(__name__)


class NoEmbedder:
    """A `QueryEmbedder` that never has a vector; `reason` is a sentence."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def query(self, text: str) -> QueryVector:
        del text
        raise EmbedderUnavailable(self._reason)

    def trouble(self) -> str | None:
        return self._reason

    def conditions(self) -> Mapping[str, Condition]:
        return {"model": "off"}


class LocalQueryEmbedder:
    """A `QueryEmbedder` over an embedder in this process.

    It works on a thread of its own, so that whoever asks waits no longer than the deadline. What
    is late goes on: a model finishes loading, and a late vector serves the next one who asks.
    """

    def __init__(
        self, embedder: Embedder, deadline_seconds: float = 1.0, cache_size: int = 256
    ) -> None:
        self._embedder = embedder
        self._deadline = deadline_seconds
        self._cache = VectorCache(cache_size)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="query-embedder")
        self._loaded = False
        self._trouble: str | None = None

    def query(self, text: str) -> QueryVector:
        vector = self._cache.get(text)
        return self._wait(self._submit(text)) if vector is None else vector

    def trouble(self) -> str | None:
        return self._trouble

    def conditions(self) -> Mapping[str, Condition]:
        if self._trouble:
            return {"model": "down"}
        return {"model": "ok" if self._loaded else "unknown"}

    def close(self) -> None:
        """Lets what runs finish and refuses what comes."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _submit(self, text: str) -> Future[QueryVector]:
        try:
            return self._thread.submit(self._embed, text)
        except RuntimeError:
            raise EmbedderUnavailable("The embedder is closing.") from None

    def _wait(self, coming: Future[QueryVector]) -> QueryVector:
        try:
            return coming.result(self._deadline)
        except TimeoutError:
            coming.cancel()
            raise EmbedderUnavailable(self._late()) from None

    def _late(self) -> str:
        if not self._loaded:
            return "The model is still loading; try again in a moment for a search by meaning."
        return f"The embedder took longer than {self._deadline:g} seconds."

    def _embed(self, text: str) -> QueryVector:
        try:
            [numbers] = self._embedder.embed([text])
            vector = QueryVector(numbers, self._embedder.identity.id)
        except EmbedderUnavailable as unavailable:
            self._trouble = str(unavailable)
            raise
        except Exception:
            log.exception("embedding a query failed")
            raise EmbedderUnavailable("The embedder failed on this query.") from None
        self._loaded = True
        self._trouble = None
        self._cache.put(text, vector)
        return vector


class VectorCache:
    """The vectors of the texts that were asked for last."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._vectors: OrderedDict[str, QueryVector] = OrderedDict()

    def get(self, text: str) -> QueryVector | None:
        with self._lock:
            if text in self._vectors:
                self._vectors.move_to_end(text)
            return self._vectors.get(text)

    def put(self, text: str, vector: QueryVector) -> None:
        with self._lock:
            self._vectors[text] = vector
            self._vectors.move_to_end(text)
            if len(self._vectors) > self._size:
                self._vectors.popitem(last=False)
