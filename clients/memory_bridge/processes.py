"""Processes that outlive the one that starts them: on POSIX and on Windows."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_LARGEST_LOG_BYTES = 4 * 1024 * 1024

if sys.platform == "win32":
    _DETACHED = subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
else:
    _DETACHED = 0


def words_of(command: str) -> Sequence[str] | str:
    """Returns a command line as the system takes it. Raises ValueError for an unclosed quote."""
    if sys.platform == "win32":
        return command  # Windows gives a program its line whole
    import shlex  # noqa: PLC0415  # needed for this alone

    return shlex.split(command)


def start_detached(
    command: Sequence[str] | str, log: Path, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Starts a process that no signal and no end of ours reaches; what it says goes to `log`.

    Raises OSError.
    """
    with os.fdopen(_log(log), "ab") as output:
        return subprocess.Popen(  # noqa: S603  # the command is the user's own
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,  # away from the terminal, and from its signals
            creationflags=_DETACHED,  # the same on Windows
        )


def _log(path: Path) -> int:
    """Returns a descriptor that appends; what grew too long gives way to a new file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Another start may have moved it just now, and Windows moves no file that is open.
    with contextlib.suppress(OSError):
        if path.stat().st_size > _LARGEST_LOG_BYTES:
            path.replace(path.with_suffix(".log.1"))
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
