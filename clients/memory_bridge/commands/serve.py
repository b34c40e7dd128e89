"""Serve: hands over to the server, which is installed as an extra."""

import importlib
import sys
from argparse import ArgumentParser
from collections.abc import Sequence

from memory_bridge.commands import extras
from memory_bridge.exits import OK, UNREACHABLE

NAME = "serve"
HELP = "run the server: memory-bridge serve [FILE] [--http]"


def options(parser: ArgumentParser) -> None:
    """What the server takes, for completion: it reads its words itself."""
    parser.add_argument("file", nargs="?", metavar="FILE")
    parser.add_argument("--http", action="store_true", help="listen, instead of stdio")


def run(argv: Sequence[str]) -> int:
    try:
        return importlib.import_module("memory_gateway.main").main(argv) or OK
    except ModuleNotFoundError as missing:
        sys.stderr.write(f"memory-bridge: {extras.hint(missing)}\n")
        return UNREACHABLE
