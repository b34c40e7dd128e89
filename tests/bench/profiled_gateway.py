"""The gateway with its event loop under a profiler: `profiled_gateway.py FILE …` writes, when it is
stopped, how many seconds each package took by itself, as JSON. Its start does not count."""

import cProfile
import json
import pstats
import sys
from collections import Counter
from functools import partial
from pathlib import Path

from memory_gateway import listener, main

BELOW = "site-packages/"
WAITING = {"poll", "run_until_complete", "select"}

Function = tuple[str, int, str]


def package_of(function: Function) -> str:
    """The package that a function is in: ours with its module, the standard library as one."""
    file = Path(function[0]).as_posix()
    _, ours, module = file.partition("/memory_gateway/")
    if ours:
        return f"memory_gateway/{module.split('/')[0].removesuffix('.py')}"
    _, installed, path = file.partition(BELOW)
    return path.split("/")[0] if installed else "standard library"


def seconds_by_package(profile: cProfile.Profile) -> Counter[str]:
    """What is built in counts for who calls it; waiting counts for nobody."""
    found: Counter[str] = Counter()
    stats = pstats.Stats(profile).stats
    for function, (_, _, alone, _, callers) in stats.items():
        if function[0] != "~":
            found[package_of(function)] += alone
        elif not any(word in function[2] for word in WAITING):
            for caller, (_, _, part, _) in callers.items():
                found[package_of(caller)] += part
    return found


if __name__ == "__main__":
    measured, serve = cProfile.Profile(), listener.serve_http
    listener.serve_http = partial(measured.runcall, serve)
    code = main.main(sys.argv[2:])
    Path(sys.argv[1]).write_text(json.dumps(seconds_by_package(measured)), "utf-8")
    sys.exit(code)
