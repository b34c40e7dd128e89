"""How much memory a process takes."""

import contextlib
import subprocess
import time

import psutil

LOOK_SECONDS = 0.01


def peak(process: subprocess.Popen[bytes]) -> int:
    """Returns the most bytes that a process was seen to hold until it ended well.

    Not what the system kept of it: that begins with what its parent held.
    """
    seen = []
    watched = psutil.Process(process.pid)
    with contextlib.suppress(psutil.NoSuchProcess):
        while process.poll() is None:
            seen.append(watched.memory_info().rss)
            time.sleep(LOOK_SECONDS)
    assert process.returncode == 0
    return max(seen)
