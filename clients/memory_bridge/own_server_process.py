"""The server that a command starts for itself over HTTP: it ends when whoever started it does."""

import importlib
import os
import signal
import sys
import threading
from collections.abc import Sequence

from memory_bridge.commands import extras
from memory_bridge.exits import UNREACHABLE


def main(argv: Sequence[str]) -> int:
    """Serves until stdin ends; `argv` is what follows `serve`. Returns the exit code."""
    # The server takes stdin for itself.
    watched = os.dup(sys.stdin.fileno())
    threading.Thread(target=_end_after, args=[watched], daemon=True).start()
    try:
        return importlib.import_module("memory_gateway.main").main([*argv, "--http"])
    except ModuleNotFoundError as missing:
        sys.stderr.write(f"memory-bridge: {extras.hint(missing)}\n")
        return UNREACHABLE


def _end_after(descriptor: int) -> None:
    while os.read(descriptor, 4096):
        pass
    signal.raise_signal(signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
