"""Where a command may write on its own account: on a temporary database unless a place is named."""

import dataclasses
import tempfile
from argparse import Namespace
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from memory_bridge import memory, settings
from memory_bridge.client import Client


@dataclasses.dataclass(frozen=True)
class Place:
    """`MCP_URL` is not one: who only wants to try out did not mean that."""

    options: Namespace

    def client(self, variables: Mapping[str, str] | None = None) -> Client:
        """Returns a client of its own; `variables` go to the server that is started for it."""
        read = settings.read()
        started = {**read.server_environment, "MCP_EMBEDDINGS": "off", **(variables or {})}
        return memory.client_for(
            self.options, dataclasses.replace(read, server_environment=started)
        )


@contextmanager
def temporary() -> Generator[Place]:
    with tempfile.TemporaryDirectory(prefix="memory-bridge-", ignore_cleanup_errors=True) as folder:
        yield Place(Namespace(db=str(Path(folder) / "memory.db")))


@contextmanager
def named(options: Namespace) -> Generator[Place]:
    """Yields what `--url` or `--db` names, else a temporary database."""
    if getattr(options, "url", None) or getattr(options, "db", None):
        yield Place(options)
        return
    with temporary() as place:
        yield place
