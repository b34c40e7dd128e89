"""A store in a process of its own, and the plainest client of it."""

import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from memory_store.contract import Problem, error_from
from memory_store.wire import OPERATIONS

Database = Path | str
"""A SQLite file, or a Postgres database by its address."""

SECRET = "a secret of sixteen letters and more"
PROGRAM = [sys.executable, "-m", "memory_store.main"]
LISTENS = re.compile(r"http://127\.0\.0\.1:\d+")


@dataclass(frozen=True)
class StoreProcess:
    """`said` is its log so far, line by line."""

    url: str
    process: subprocess.Popen[str]
    said: list[str]

    @property
    def pid(self) -> int:
        return self.process.pid

    def kill(self) -> None:
        """Ends it as a failing machine would, in the middle of whatever it does."""
        self.process.kill()
        self.process.wait()


def environment_of(database: Database) -> dict[str, str]:
    """The setting by which a process of the product finds it."""
    if isinstance(database, str):
        return {"MCP_DATABASE_URL": database}
    return {"MCP_MEMORY_DB": str(database)}


@contextmanager
def store_process(
    database: Database, *, program: Sequence[str] = PROGRAM, **settings: str
) -> Iterator[StoreProcess]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MCP_")}
    ours = {"MCP_STORE_PORT": "0", "MCP_STORE_SECRET": SECRET, **environment_of(database)}
    environment = inherited | ours | settings
    with subprocess.Popen(program, env=environment, stderr=subprocess.PIPE, text=True) as process:
        said: list[str] = []
        listens: Future[str] = Future()
        listening = threading.Thread(target=_listen, args=(process.stderr, said, listens))
        listening.start()
        try:
            yield StoreProcess(listens.result(), process, said)
        finally:
            process.kill()
            listening.join()


def _listen(log: Iterable[str], said: list[str], listens: "Future[str]") -> None:
    """Empties the pipe, so that the store never waits for it; the address is in it."""
    for line in log:
        said.append(line)
        if (found := LISTENS.search(line)) and not listens.done():
            listens.set_result(found.group())
    if not listens.done():
        listens.set_exception(AssertionError(f"the store did not start: {''.join(said)}"))


class PlainClient:
    """One connection, one call at a time, and next to no work of its own."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self._socket = socket.create_connection((address.hostname, address.port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._read = self._socket.makefile("rb")

    def close(self) -> None:
        self._read.close()
        self._socket.close()

    def call(self, method: str, **arguments: Any) -> Any:
        """Returns the result as JSON. Raises the contract's errors."""
        self.send(method, **arguments)
        return self._answer()

    def send(self, method: str, **arguments: Any) -> None:
        operation = OPERATIONS[method]
        body = operation.encode_arguments(operation.bind(**arguments))
        self._socket.sendall(
            b"POST /%s HTTP/1.1\r\nHost: store\r\nAuthorization: Bearer %s\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
            % (method.encode(), SECRET.encode(), len(body), body)
        )

    def _answer(self) -> Any:
        status = int(self._read.readline().split()[1])
        length = 0
        while (line := self._read.readline()) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        body = self._read.read(length)
        if status != 200:
            raise error_from(Problem.model_validate_json(body))
        return json.loads(body)
