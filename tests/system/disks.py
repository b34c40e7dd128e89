"""Small disks, and what fills them."""

import contextlib
import random
import subprocess

import pytest


@contextlib.contextmanager
def mounted(folder, *options):
    """A small disk of its own. Skips where the test may not mount one."""
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"no disk can be mounted here, which needs root: {made.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(hand, written):
    """Writes until it is refused; adds to `written` what was acknowledged."""
    for number in range(10_000):
        words = random.Random(number).sample(range(10**9), 300)  # which nothing compresses
        key, value = f"k{number}", " ".join(map(str, words))
        hand.set(key, value)
        written[key] = value
