"""How far a long operation is: one line at a terminal, nothing anywhere else."""

import time
from typing import TextIO

SILENT_SECONDS = 1.0
EVERY_SECONDS = 0.1


class Progress:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown = stream.isatty()
        self._next = time.monotonic() + SILENT_SECONDS
        self._width = 0

    def __call__(self, what: str, done: int, total: int) -> None:
        """Says that `done` of `total` are done; a total of 0 is unknown."""
        if not self._shown or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + EVERY_SECONDS
        share = f"{min(done / total, 1.0):4.0%}" if total else f"{done:,}"
        self._write(f"{what}: {share}")

    def clear(self) -> None:
        if self._width:
            self._write("")
            self._stream.write("\r")
            self._stream.flush()

    def _write(self, text: str) -> None:
        self._stream.write("\r" + text.ljust(self._width))
        self._stream.flush()
        self._width = len(text)
