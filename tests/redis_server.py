"""A Redis server for the tests, where the machine has one."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from ports import free_port

SECONDS = 20.0


class RedisServer:
    """Kept in memory only, on 127.0.0.1; it can be stopped and started again on its port."""

    def __init__(self, program: str, folder: Path) -> None:
        self._program = program
        self._folder = folder
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        options = ("--save", "", "--appendonly", "no", "--bind", "127.0.0.1")
        self._process = subprocess.Popen(
            [self._program, "--port", str(self.port), "--dir", str(self._folder), *options],
            stdout=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + SECONDS
        while not listens(self.port):
            assert time.monotonic() < deadline, "Redis did not start"
            time.sleep(0.02)

    def stop(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait(SECONDS)
            self._process = None


@contextmanager
def redis_server(folder: Path) -> Iterator[RedisServer]:
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("NOT TESTED: redis-server is not installed here")
    server = RedisServer(program, folder)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def contained_redis_server(folder: Path) -> AbstractContextManager[Any]:
    """The published image, for those who have an engine."""
    from containers import redis_container  # noqa: PLC0415 - only where there is an engine

    return redis_container(folder)


SERVERS = (
    pytest.param(redis_server, id="installed"),
    pytest.param(contained_redis_server, id="in a container", marks=pytest.mark.containers),
)


def listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False
