"""The server that experiments are made on, and clients with tokens of their own."""

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.served import environment
from experiments.findings import ExperimentError
from gateway_serving import TOKEN, HttpServer, http_server
from memory_bridge.client import Client
from memory_bridge.memory import Memory

COMMAND = [sys.executable, "-P", "-m", "memory_bridge"]
PUBLIC_NAME = "memory.tail0000.ts.net"
SECONDS = 120.0
LOOK_SECONDS = 0.05
AT_ONCE = 100
# Two clients that do nothing but write ask for more than one token may.
UNBOUND = {"MCP_RATE_PER_SECOND": "1000000", "MCP_RATE_BURST": "1000000"}


@dataclass(frozen=True)
class Site:
    """A running server. `folder` is for the files of an experiment."""

    server: HttpServer
    folder: Path

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def administrator(self) -> Path:
        """The file with the token that may do everything."""
        file = self.folder / "administrator"
        file.write_text(TOKEN)
        return file

    def where(self, token_file: Path) -> list[str]:
        return ["--url", self.url, "--token-file", str(token_file)]

    def token_for(self, name: str) -> Path:
        """Returns a file with the new token of a client, whose name the history will prove."""
        made = run("token", "create", name, *self.where(self.administrator))
        file = self.folder / f"token-{name}"
        file.write_text(made)
        return file

    @contextmanager
    def memory(self, namespace: str) -> Iterator[Memory]:
        with Client.http(self.url, token=TOKEN, name="experiments", timeout=SECONDS) as client:
            yield Memory(client, namespace, None)


@contextmanager
def site(folder: Path, **settings: str) -> Iterator[Site]:
    ours = {
        "MCP_EMBEDDINGS": "on",
        "MCP_ALLOWED_HOSTS": PUBLIC_NAME,
        "MCP_TRUSTED_PROXIES": "127.0.0.1",
        **UNBOUND,
    }
    with http_server(folder / "memory.db", **(ours | settings)) as server:
        yield Site(server, folder)


def run(*words: str, variables: Mapping[str, str] | None = None) -> str:
    """Runs a command of the product; returns what it said on stdout."""
    done = subprocess.run(
        [*COMMAND, *words],
        env=environment(variables or {}),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode:
        raise ExperimentError(
            f"memory-bridge {words[0]} ended with {done.returncode}: {done.stderr}"
        )
    return done.stdout


def remember(memory: Memory, facts: Mapping[str, str]) -> None:
    """Returns when all facts are stored and have their vectors."""
    writes = [{"key": key, "value": value} for key, value in facts.items()]
    for start in range(0, len(writes), AT_ONCE):
        memory.call("memory_set_many", {"writes": writes[start : start + AT_ONCE]})
    end = time.monotonic() + SECONDS
    while (stats := memory.call("memory_stats", {}))["embedded"] < stats["facts"]:
        if time.monotonic() > end:
            raise ExperimentError("The facts got no vectors in time: is the model prepared?")
        time.sleep(LOOK_SECONDS)


def value_of(memory: Memory, key: str) -> Any:
    return memory.call("memory_get", {"key": key})["fact"]["value"]
