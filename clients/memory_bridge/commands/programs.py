"""The subcommands that are neither a tool of the memory nor an operation on its store."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Program:
    """`run` returns the exit code; it raises what every command may raise."""

    name: str
    help: str
    options: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], int]
