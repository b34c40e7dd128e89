"""A server over HTTP that a command starts for itself alone, for what stdio does not offer."""

import secrets
import sys
from collections.abc import Mapping
from queue import Empty, SimpleQueue
from typing import Self

from memory_bridge.child import Child
from memory_bridge.deadline import Deadline

_ANNOUNCED = "listening on "
_TOKENS = "MCP_AUTH_TOKEN"


class OwnServer:
    """Listens on a free port of this machine, for whoever has `token`; `with` starts and ends it.

    It makes no embeddings: it is for looking.
    """

    def __init__(self, file: str | None, environment: Mapping[str, str], timeout: float) -> None:
        self.url = ""
        self.token = secrets.token_urlsafe(32)
        self._arguments = [] if file is None else [file]
        self._environment = environment
        self._timeout = timeout
        self._child: Child | None = None

    def __enter__(self) -> Self:
        # -P: a module of the folder that the command runs in must not take the place of a real one.
        module = ["-P", "-m", "memory_bridge.own_server_process"]
        command = [sys.executable, *module, *self._arguments]
        child = Child(command, environment=self._settings())
        self._child = child
        told: SimpleQueue[str | None] = SimpleQueue()
        child.start(_ignore, lambda: told.put(None), told.put)
        try:
            self.url = _announced(told, child, Deadline(self._timeout))
        except BaseException:
            child.close()
            raise
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._child is not None:
            self._child.close()

    def check(self) -> None:
        """Raises `ServerDied` if it has ended."""
        if self._child is not None and self._child.has_ended:
            raise self._child.death()

    def _settings(self) -> dict[str, str]:
        kept = {
            name: value for name, value in self._environment.items() if not name.startswith(_TOKENS)
        }
        mine = {"MCP_HTTP_HOST": "127.0.0.1", "MCP_HTTP_PORT": "0", "MCP_EMBEDDINGS": "off"}
        return {**kept, **mine, _TOKENS: self.token}


def _ignore(_line: bytes) -> None:
    """Over HTTP a server has nothing to say on stdout."""


def _announced(told: "SimpleQueue[str | None]", child: Child, deadline: Deadline) -> str:
    """Returns the address that the server says. Raises `ServerDied` and `TimedOut`."""
    try:
        while (words := told.get(timeout=deadline.remaining())) is not None:
            if words.startswith(_ANNOUNCED):
                return words.removeprefix(_ANNOUNCED)
    except Empty:
        raise deadline.expired() from None
    raise child.death()
