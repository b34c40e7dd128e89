"""The stack of containers as `make` starts it, with a project, a port and secrets of its own."""

import json
import os
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from memory_bridge.client import Client
from ports import free_port, is_free

ROOT = Path(__file__).parents[1]
COMPOSE = ROOT / "infra" / "compose"
FILES = {
    "lean": ("compose.yaml",),
    "extended": ("compose.yaml", "compose.extended.yaml"),
}
OURS = ("MCP_", "MEMORY_BRIDGE_", "FUNNEL", "TS_", "WATCHDOG_", "COMPOSE_", "MAKE", "MFLAGS")
COMMAND_SECONDS = 540
"""How long a command may take: the first `make up` builds images."""


class Stack:
    """`settings` are variables as a user of the stack would set them. Its images are there."""

    def __init__(self, folder: Path, profile: str = "lean", **settings: str) -> None:
        self.profile = profile
        self.project = f"memory-bridge-test-{secrets.token_hex(4)}"
        self.secrets = folder / "the secrets"
        self.ports = _free_ports(int(settings.get("GATEWAYS", 1)))
        self.port = self.ports[0]
        self.url = _url(self.port)
        inherited = {name: value for name, value in os.environ.items() if not _is_ours(name)}
        ours = {
            "COMPOSE_PROJECT_NAME": self.project,
            "MEMORY_BRIDGE_PORT": "-".join(map(str, sorted({self.port, self.ports[-1]}))),
            "MEMORY_BRIDGE_SECRETS": str(self.secrets),
            "BUILD": "never",
        }
        self.environment = inherited | ours | settings
        self._beside = [
            *(["compose.funnel.yaml"] if "FUNNEL" in settings else []),
            *([settings["MEMORY_BRIDGE_COMPOSE"]] if "MEMORY_BRIDGE_COMPOSE" in settings else []),
        ]

    @property
    def token(self) -> str:
        return (self.secrets / "auth_token").read_text()

    def make(self, target: str, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
        return self._run(["make", target, f"PROFILE={self.profile}", *words], ROOT, settings)

    def up(self, **settings: str) -> str:
        """Starts it and returns what `make up` says once all of it is healthy."""
        done = self.make("up", **settings)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def compose(self, *arguments: str, **settings: str) -> str:
        done = self._run([*self._compose(), *arguments], COMPOSE, settings)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def wait_until_healthy(self) -> None:
        self.compose("up", "--detach", "--no-build", "--wait", "--wait-timeout", "120")

    def run_in(self, service: str, *command: str) -> subprocess.CompletedProcess[str]:
        return self._run([*self._compose(), "exec", "-T", service, *command], COMPOSE, {})

    def services(self) -> list[str]:
        return sorted(self.compose("config", "--services").split())

    def containers(self, *services: str) -> list[str]:
        """Those of the services, or all, running or not."""
        return self.compose("ps", "--all", "--quiet", *services).split()

    def inspect(self, service: str) -> dict[str, Any]:
        """What the engine knows of a service's first container, running or not."""
        return inspect(self.containers(service)[0])

    def remove(self) -> None:
        self.make("clean-data", YES="1")
        # What the sidecar keeps outlives even the memory.
        kept = f"{self.project}_tailscale"
        self._run(["docker", "volume", "rm", "--force", kept], ROOT, {})

    def client(self, name: str = "a-test", gateway: int = 0) -> Client:
        """Returns a client of one of the gateways, any number is that of one."""
        url = _url(self.ports[gateway % len(self.ports)])
        return Client.http(url, token=self.token, name=name)

    def _compose(self) -> list[str]:
        files = (*FILES[self.profile], *self._beside)
        return ["docker", "compose", *(word for name in files for word in ("--file", name))]

    def _run(
        self, command: list[str], folder: Path, settings: dict[str, str]
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=folder,
            env=self.environment | settings,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )


@contextmanager
def running(folder: Path, profile: str = "lean", **settings: str) -> Iterator[Stack]:
    """A stack that is up and healthy; afterwards nothing of it is left."""
    build_images()
    stack = Stack(folder, profile, **settings)
    try:
        stack.up()
        yield stack
    finally:
        stack.remove()


@cache
def build_images() -> None:
    """Once in a test run: what is tested stays the same if somebody edits meanwhile."""
    done = subprocess.run(
        [COMPOSE / "stack", "images"],
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def inspect(thing: str) -> dict[str, Any]:
    """What the engine knows of a container, an image or a network."""
    done = subprocess.run(
        ["docker", "inspect", thing], capture_output=True, text=True, timeout=60, check=True
    )
    return json.loads(done.stdout)[0]


def _is_ours(name: str) -> bool:
    return name.startswith(OURS)


def _url(port: int) -> str:
    return f"http://127.0.0.1:{port}/mcp"


def _free_ports(count: int) -> range:
    """So many in a row."""
    while True:
        first = free_port()
        ports = range(first, first + count)
        if all(map(is_free, ports[1:])):
            return ports
