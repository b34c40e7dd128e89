"""The files of a server in the background: who it is, its token, what it says."""

import contextlib
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from memory_bridge.filelock import FileLock

PID_FILE = "daemon.pid"
_OTHERS = 0o077
# Others look as well, and whoever looks holds the lock for a moment.
_LOOKS = 3
_NAP_SECONDS = 0.01


@dataclass(frozen=True)
class Running:
    """A server that is running; what it has not written down yet is None."""

    pid: int | None
    url: str | None
    token_file: Path | None = None


class PidFile:
    """Names the process that holds its lock. Without a holder what it says is of the past, and
    whoever has that number by now is somebody else."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def claim(self) -> FileLock | None:
        """Returns the lock, which names this process; None if another has it. Raises OSError."""
        lock = FileLock.take(self.path)
        if lock is not None:
            self.path.write_text(f"{os.getpid()}\n", "utf-8")
        return lock

    def add_place(self, url: str, token_file: Path) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{url}\n{token_file}\n")

    def running(self) -> Running | None:
        """Returns who holds it, None if nobody does. Raises OSError."""
        if not self.path.exists() or self._is_free():
            return None
        pid, url, token, *_ = [*self.path.read_text("utf-8").splitlines(), "", "", ""]
        return Running(
            int(pid) if pid.isdigit() else None, url or None, Path(token) if token else None
        )

    def _is_free(self) -> bool:
        for _ in range(_LOOKS):
            if (lock := FileLock.take(self.path)) is not None:
                lock.release()
                return True
            time.sleep(_NAP_SECONDS)
        return False


class Log:
    """What the server says on stderr, from a moment on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._begin = path.stat().st_size if path.exists() else 0

    def lines(self) -> list[str]:
        """Returns what was said since. A log that grew too long has begun anew."""
        with contextlib.suppress(FileNotFoundError), self.path.open("rb") as file:
            file.seek(self._begin if self._begin <= self.path.stat().st_size else 0)
            return file.read().decode("utf-8", "replace").splitlines()
        return []


def keep_token(path: Path) -> None:
    """Makes a token unless there is one, and lets nobody else read it. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        _make_token(path)
    if sys.platform != "win32" and path.stat().st_mode & _OTHERS:
        path.chmod(0o600)


def _make_token(path: Path) -> None:
    """Whole or not at all, and never in the place of one that is made elsewhere meanwhile."""
    import secrets  # noqa: PLC0415  # seldom needed, and it imports much
    import tempfile  # noqa: PLC0415  # as above

    # A name that nobody else has: the number of a process would be shared by its threads, and by
    # a process of another machine on the same disk.
    descriptor, draft = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(f"{secrets.token_urlsafe(32)}\n")
        _publish(Path(draft), path)
    finally:
        Path(draft).unlink(missing_ok=True)


def _publish(draft: Path, path: Path) -> None:
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        return
    except OSError:
        draft.replace(path)  # not every file system has links
