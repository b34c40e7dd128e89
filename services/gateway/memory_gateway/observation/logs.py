"""Where log lines go: standard error, as JSON or as text, and never at the cost of a call."""

import logging
import queue
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from logging.handlers import QueueHandler
from typing import Literal

from pythonjsonlogger.core import RESERVED_ATTRS
from pythonjsonlogger.json import JsonFormatter

TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
MOST_WAITING = 10_000
LAST_LINES_SECONDS = 1.0
TOGETHER_SECONDS = 0.05
"""Lines are written a few at a time: written one by one, each would keep waiting the answer of the
call that it is about."""

ESCAPED = {code: f"\\u{code:04x}" for code in (*range(32), *range(127, 160), 0x2028, 0x2029)}

Format = Literal["json", "text"]


@contextmanager
def logging_to_stderr(level: str, form: Format) -> Generator[None]:
    """Has everything logged while the context lasts, and the last lines at its end."""
    writing = logging.StreamHandler(sys.stderr)
    writing.setFormatter(_json() if form == "json" else logging.Formatter(TEXT))
    waiting = WaitingLines(writing)
    logging.basicConfig(level=level.upper(), handlers=[waiting], force=True)
    logging.getLogger("mcp").setLevel(logging.WARNING)  # it logs every session and request
    try:
        yield
    finally:
        waiting.finish()


def _json() -> JsonFormatter:
    renamed = {"levelname": "level", "name": "logger"}
    return JsonFormatter(
        "{levelname}{name}{message}",
        style="{",
        rename_fields=renamed,
        timestamp="time",
        json_ensure_ascii=False,
        reserved_attrs=[*RESERVED_ATTRS, "color_message"],
    )


class _OneLine(logging.Formatter):
    """What a client said can neither pass for a line of the server's own nor steer a terminal."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  as logging calls it
        return super().formatMessage(record).translate(ESCAPED)


class WaitingLines(QueueHandler):
    """Lines on their way to a handler that may block: a pipe that nobody reads must not hold up
    the server. Of too many waiting lines the newest are dropped, and their number is told."""

    def __init__(self, handler: logging.Handler) -> None:
        self._lines: queue.Queue[logging.LogRecord | None] = queue.Queue(MOST_WAITING)
        super().__init__(self._lines)
        self.setFormatter(_OneLine("%(message)s"))  # the handler adds the rest
        self._handler = handler
        self._dropped = 0
        self._thread = threading.Thread(target=self._write, name="log", daemon=True)
        self._thread.start()

    def enqueue(self, record: logging.LogRecord) -> None:
        try:
            self._lines.put_nowait(record)
        except queue.Full:
            self._dropped += 1

    def finish(self) -> None:
        """Waits for the last lines, but not for ever."""
        try:
            self._lines.put(None, timeout=LAST_LINES_SECONDS)
        except queue.Full:
            return
        self._thread.join(LAST_LINES_SECONDS)

    def _write(self) -> None:
        while (record := self._lines.get()) is not None:
            self._handler.handle(record)
            if self._lines.empty():
                self._tell_of_dropped()
                time.sleep(TOGETHER_SECONDS)
        self._tell_of_dropped()

    def _tell_of_dropped(self) -> None:
        dropped, self._dropped = self._dropped, 0
        if dropped:
            self._handler.handle(_told(dropped))


def _told(dropped: int) -> logging.LogRecord:
    text = "%d log lines were dropped: standard error is not read fast enough"
    return logging.LogRecord(__name__, logging.WARNING, __file__, 0, text, (dropped,), None)
