"""How long it takes to start: the server, a bare one beside it, the command, the client."""

import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from figures import Figure, milliseconds
from served import connected, environment, new_database, program, serve_command

RUNS = 9
BARE_SERVER = [sys.executable, str(Path(__file__).with_name("bare_server.py"))]
IMPORT_CLIENT = [sys.executable, "-c", "import memory_bridge.client"]


def measure() -> Iterator[Figure]:
    yield from _initialize()
    yield Figure("memory-bridge --help", _run([program(), "--help"]), "ms", most=150)
    yield Figure("import memory_bridge.client", _run(IMPORT_CLIENT), "ms", most=150)


def _initialize() -> Iterator[Figure]:
    """From exec to the answer; the two take turns, so that a busy machine slows both."""
    with new_database() as database:
        ours, bare = zip(*(_one_of_each(serve_command(database)) for _ in range(RUNS)), strict=True)
    own, other = statistics.median(ours), statistics.median(bare)
    yield Figure("initialize, memory-bridge", own, "ms")
    yield Figure("initialize, bare MCPServer", other, "ms")
    yield Figure("initialize, against a bare MCPServer", own / other, "times", most=1.5)


def _one_of_each(command: Sequence[str]) -> tuple[float, float]:
    return _initialized(command), _initialized(BARE_SERVER)


def _initialized(command: Sequence[str]) -> float:
    connection = connected(command)
    taken = milliseconds(connection.__enter__)
    connection.__exit__(None, None, None)
    return taken


def _run(command: Sequence[str]) -> float:
    return statistics.median(milliseconds(lambda: _finish(command)) for _ in range(RUNS))


def _finish(command: Sequence[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment({}))
