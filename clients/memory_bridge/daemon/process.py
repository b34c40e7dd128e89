"""What runs in the background: `python -m memory_bridge.daemon.process PIDFILE [FILE]`."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from memory_bridge.commands import serve
from memory_bridge.daemon.files import PidFile
from memory_bridge.deadline import Deadline
from memory_bridge.exits import BUSY
from memory_bridge.filelock import FileLock

# Who only asks whether a server runs holds the lock for a moment.
_PATIENCE_SECONDS = 2.0
_NAP_SECONDS = 0.02


def main(argv: Sequence[str]) -> int:
    pid_file, *words = argv
    lock = _claimed(PidFile(Path(pid_file)))
    if lock is None:
        sys.stderr.write("memory-bridge: another server runs in the background already.\n")
        return BUSY
    with lock:
        return serve.run([*words, "--http"])


def _claimed(pid_file: PidFile) -> FileLock | None:
    deadline = Deadline(_PATIENCE_SECONDS)
    while (lock := pid_file.claim()) is None and not deadline.is_over:
        time.sleep(_NAP_SECONDS)
    return lock


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
