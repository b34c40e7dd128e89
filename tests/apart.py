"""A store and gateways, each in a process of its own."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gateway_serving import SECONDS, TOKEN, HttpServer, command, environment

SECRET = "a secret of sixteen letters and more"
STORE = [sys.executable, "-m", "memory_store.main"]
LISTENS = re.compile(r"http://127\.0\.0\.1:(\d+)")


@dataclass
class StoreProcess:
    process: subprocess.Popen[str]
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@dataclass
class Gateway(HttpServer):
    """`before` is what it said before it listened."""

    before: list[str]


@contextmanager
def store_serving(database: Path, port: int = 0, **settings: str) -> Iterator[StoreProcess]:
    """Ends by SIGTERM, as a restart would end it."""
    ours = {"MCP_MEMORY_DB": str(database), "MCP_STORE_PORT": str(port), "MCP_STORE_SECRET": SECRET}
    process = subprocess.Popen(
        STORE, env=environment(**settings) | ours, stderr=subprocess.PIPE, text=True, cwd=os.sep
    )
    try:
        said = iter(process.stderr)
        found = next(filter(None, map(LISTENS.search, said)))
        threading.Thread(target=list, args=[said], daemon=True).start()
        yield StoreProcess(process, int(found[1]))
    finally:
        process.terminate()
        process.wait(SECONDS)


@contextmanager
def gateway_over(store: StoreProcess | None, *arguments: str, **settings: str) -> Iterator[Gateway]:
    """Without a store: one that nobody serves, for a gateway that is to do without."""
    url = store.url if store else "http://127.0.0.1:1"
    ours = {
        "MCP_HTTP_PORT": "0",
        "MCP_AUTH_TOKEN": TOKEN,
        "MCP_STORE_URL": url,
        "MCP_STORE_SECRET": SECRET,
        "MCP_LOG_FORMAT": "text",
    }
    process = subprocess.Popen(
        command(*arguments, "--http"),
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**(ours | settings)),
    )
    try:
        said, before = iter(process.stderr), []
        for line in said:
            before.append(line)
            if line.startswith("listening on "):
                break
        errors: list[str] = []
        reader = threading.Thread(target=errors.extend, args=[said], daemon=True)
        reader.start()
        yield Gateway(process, before[-1].split()[-1], errors, reader, before)
    finally:
        process.kill()
        process.wait(SECONDS)
