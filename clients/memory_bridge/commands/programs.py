"""The subcommands that are neither a tool of the memory nor an operation on its store."""

import contextlib
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Generator
from dataclasses import dataclass

from memory_bridge.errors import ProtocolError


@dataclass(frozen=True)
class Program:
    """`run` returns the exit code; it raises what every command may raise."""

    name: str
    help: str
    options: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], int]


@contextlib.contextmanager
def understanding() -> Generator[None]:
    """Raises `ProtocolError` where an answer is taken apart that has another form."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise ProtocolError("The server answered in a form that is unknown here.") from error
