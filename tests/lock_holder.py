"""A process that does nothing but hold the write lock of a SQLite file."""

import contextlib
import subprocess
import sys

WAIT_SECONDS = 30

HOLDS_THE_LOCK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
"""


@contextlib.contextmanager
def lock_held(path):
    """Another process holds the write lock; gives what makes it let go."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDS_THE_LOCK, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout.readline() == "held\n"
        yield lambda: holder.communicate("\n", timeout=WAIT_SECONDS)
        holder.communicate(timeout=WAIT_SECONDS)
