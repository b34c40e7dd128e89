"""A file with every tool call in full, for finding out afterwards what happened.

It holds values, so only its owner may read it, and it is written only when asked for.
"""

import json
import logging
import os
from contextlib import suppress
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from memory_gateway.observation.call import Call

logger = logging.getLogger(__name__)

LARGEST_FILE = 50_000_000
OLDER_FILES = 4


class CannotLog(Exception):
    """The file cannot be written. The message says why."""


class DebugLog:
    """One line of JSON a call. A full file is put aside, and four such are kept."""

    def __init__(self, path: Path) -> None:
        """Raises `CannotLog`."""
        try:
            self._file = _PrivateFile(
                path.expanduser(),
                maxBytes=LARGEST_FILE,
                backupCount=OLDER_FILES,
                encoding="utf-8",
                errors="backslashreplace",  # a lone surrogate of a client's is no reason to fail
            )
        except OSError as error:
            reason = error.strerror or "it cannot be opened"
            message = f"MCP_DEBUG_LOG must name a file that can be written: {reason}."
            raise CannotLog(message) from error
        self._file.setFormatter(_Lines())

    def keep(self, call: Call, arguments: Any, answer: Any) -> None:
        caller = call.caller
        line: dict[str, Any] = {
            "request_id": call.id,
            "tool": call.name,
            "via": call.via,
            "principal": caller and caller.principal,
            "client": caller and caller.source_client,
            "outcome": call.outcome,
            "ms": round(call.seconds * 1000, 2),
            "arguments": arguments,
            "answer": answer,
        }
        self._file.emit(logging.makeLogRecord({"msg": line}))

    def close(self) -> None:
        with suppress(OSError):  # the disk is full, as was said
            self._file.close()


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        written = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: Any = record.msg
        return json.dumps({"time": written, **line}, ensure_ascii=False, default=str)


class _PrivateFile(RotatingFileHandler):
    _failed = False

    def _open(self) -> Any:
        # Without O_NONBLOCK a pipe that nobody reads would be waited for instead of refused.
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK
        os.close(os.open(self.baseFilename, flags, 0o600))
        return super()._open()

    def emit(self, record: logging.LogRecord) -> None:
        failed_before, self._failed = self._failed, False
        super().emit(record)
        if self._failed and not failed_before:
            logger.warning("MCP_DEBUG_LOG cannot be written: calls are missing in it from now on")
        elif failed_before and not self._failed:
            logger.info("MCP_DEBUG_LOG is written again")

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  as logging calls it
        """Unlike logging's own, tells nobody the record, which holds values."""
        del record
        self._failed = True
