"""A loaded model: its tokenizer and its graph. Importing this costs what the packages cost."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memory_embedder.runtime import onnxruntime
from memory_embedder.tokens import Tokens


class Session:
    """Callable from any thread; no lock is held while the graph runs."""

    def __init__(self, graph: Path, tokenizer: Path, max_tokens: int, threads: int = 1) -> None:
        self._tokens = Tokens(tokenizer, max_tokens)
        self._longest = max_tokens
        self._graph = onnxruntime.InferenceSession(
            str(graph), _options(threads), providers=["CPUExecutionProvider"]
        )
        self._inputs: set[str] = {node.name for node in self._graph.get_inputs()}

    def windows(self, text: str) -> list[str]:
        return self._tokens.windows(text)

    def vector(self, text: str) -> bytes:
        """Runs one text by itself: a quantised graph scales its numbers by all of a batch, which
        would make a text's vector depend on its neighbours, and a batch is no faster.
        """
        pooled = self._pooled(self._tokens.ids(text))
        return (pooled / np.linalg.norm(pooled)).astype("<f4").tobytes()

    def dimension(self) -> int:
        """Returns what the graph makes of the longest text that it may be given.

        Raises whatever the runtime raises when the graph does not take so many tokens.
        """
        return self._pooled([0] * self._longest).size

    def _pooled(self, tokens: list[int]) -> NDArray[np.float32]:
        ids = np.array([tokens], dtype=np.int64)
        feeds = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "token_type_ids": np.zeros_like(ids),
        }
        outputs = self._graph.run(None, {name: feeds[name] for name in self._inputs})
        return np.asarray(outputs[0], dtype=np.float32)[0].mean(axis=0)


def _options(threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.enable_cpu_mem_arena = False  # the arena keeps its peak for as long as the process
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    return options
