"""The package of a user's machine: it needs nothing else, and it starts at once."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import memory_bridge

PACKAGE = Path(memory_bridge.__file__).parent
MODULES = sorted(
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in PACKAGE.rglob("*.py")
)
LIMIT_SECONDS = 0.15
HEADROOM = 4
# -I and -S: neither the environment nor any site-packages takes part.
ALONE = [sys.executable, "-I", "-S", "-c"]


def alone(script):
    script = f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r})\n{script}"
    return subprocess.run([*ALONE, script], capture_output=True, text=True, check=False, timeout=60)


def test_every_module_imports_the_standard_library_and_itself_alone():
    done = alone(
        f"import importlib\nfor name in {MODULES!r}: importlib.import_module(name)\n"
        "roots = {name.partition('.')[0] for name in sys.modules}\n"
        "print(sorted(roots - sys.stdlib_module_names - {'memory_bridge', '__main__'}))"
    )
    assert (done.stderr, done.stdout) == ("", "[]\n")


@pytest.mark.parametrize("module", ["memory_bridge.client", "memory_bridge.cli"])
def test_what_is_slow_to_import_waits_until_it_is_needed(module):
    slow = ["asyncio", "email", "http.client", "logging", "ssl", "subprocess", "urllib.request"]
    done = alone(f"import {module}; print([name for name in {slow!r} if name in sys.modules])")
    assert (done.stderr, done.stdout) == ("", "[]\n")


@pytest.mark.parametrize(
    "words",
    [
        ["-m", "memory_bridge", "--help"],
        ["-m", "memory_bridge", "--version"],
        ["-c", "import memory_bridge.client"],
    ],
)
def test_the_start_is_quick(words):
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    took = []
    for _ in range(3):
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, *words], env=environment, check=True, stdout=subprocess.DEVNULL
        )
        took.append(time.perf_counter() - began)
    assert min(took) < LIMIT_SECONDS * HEADROOM
