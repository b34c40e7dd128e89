"""Whether there is a Docker engine, and what is left out without one."""

import os
import shutil
import subprocess
from functools import cache

MARK = "containers"
REQUIRED = "REQUIRE_DOCKER"


@cache
def answers() -> bool:
    """Whether an engine answers to a client that knows compose."""
    if shutil.which("docker") is None:
        return False
    asked = (["docker", "version"], ["docker", "compose", "version"])
    return all(
        subprocess.run(command, capture_output=True, timeout=30, check=False).returncode == 0
        for command in asked
    )


def required() -> bool:
    return os.environ.get(REQUIRED) == "1"
