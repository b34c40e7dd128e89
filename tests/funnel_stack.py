"""The stack with a stand-in for Tailscale's sidecar in front, and those who visit through it."""

import os
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import httpx2

from compose_stack import Stack, build_images, free_port
from waiting import wait_until

HERE = Path(__file__).parent / "system" / "funnel"
FUNNEL = "memory.tail0000.ts.net"
RELAY = "/stand-in/relay.py"
"""Ours, which knows WebSockets."""
READY_MADE = "/funnel.py"
"""That of the image that `TAILSCALE_IMAGE` names, if it is set."""
SECONDS = 60.0
BUILT = "memory-bridge-test/funnel"
DOCKERFILE = """
FROM {python}
RUN apt-get update && apt-get install --yes --no-install-recommends openssl wget
"""


class FunnelStack(Stack):
    """Up and healthy, with visitors at `public_url`; `program` is what plays the sidecar."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.public_port = free_port()
        # A network of its own, so that several stacks may run on one machine.
        self.network = f"198.18.{self.public_port % 256}"
        stand_in = {
            "FUNNEL": FUNNEL,
            "FUNNEL_NETWORK": self.network,
            "FUNNEL_PORT": str(self.public_port),
            "FUNNEL_PROGRAM": programs()[0],
            "FUNNEL_STAND_IN": str(HERE / "stand_in"),
            "MEMORY_BRIDGE_COMPOSE": str(HERE / "stand_in.yaml"),
            "TAILSCALE_IMAGE": image(),
            "TS_CLIENT_ID": "a-client",
        }
        super().__init__(folder, **(stand_in | settings))

    def run_sidecar(self, program: str, **settings: str) -> None:
        """Makes the sidecar anew, and returns when it serves."""
        up = ("up", "--detach", "--no-build", "--no-deps", "--wait", "--wait-timeout", "60")
        self.compose(*up, "tailscale", FUNNEL_PROGRAM=program, **settings)
        self.wait_until_it_answers()

    def trust(self) -> ssl.SSLContext:
        """What believes the sidecar's certificate and no other."""
        return ssl.create_default_context(cadata=self.run_in("tailscale", "cat", "/tmp/c").stdout)

    @contextmanager
    def visitor(self, **headers: str) -> Iterator[httpx2.Client]:
        """A client out there, with the installation's token unless `headers` say otherwise."""
        known = {"Host": FUNNEL, "Authorization": f"Bearer {self.token}"}
        web = httpx2.Client(
            base_url=f"https://127.0.0.1:{self.public_port}",
            headers=known | headers,
            verify=self.trust(),
            timeout=SECONDS,
            event_hooks={"request": [_name_server]},
        )
        with web:
            yield web

    def answers(self) -> bool:
        try:
            with self.visitor() as web:
                return web.get("/healthz").status_code == httpx2.codes.OK
        except (OSError, ssl.SSLError, httpx2.HTTPError):
            return False

    def wait_until_it_answers(self) -> None:
        wait_until(self.answers, seconds=SECONDS, about="the public address")


@contextmanager
def funnel_stack(folder: Path, **settings: str) -> Iterator[FunnelStack]:
    build_images()
    stack = FunnelStack(folder, **settings)
    try:
        stack.up()
        yield stack
    finally:
        stack.remove()


def programs() -> tuple[str, ...]:
    return (READY_MADE, RELAY) if os.environ.get("TAILSCALE_IMAGE") else (RELAY,)


@cache
def image() -> str:
    """What has Python, openssl and wget."""
    if ready := os.environ.get("TAILSCALE_IMAGE"):
        return ready
    text = DOCKERFILE.format(python=os.environ.get("PYTHON_IMAGE", "python:3.13-slim"))
    command = ["docker", "build", "--tag", BUILT, "-"]
    subprocess.run(command, input=text.encode(), check=True, timeout=300)
    return BUILT


def _name_server(request: Any) -> None:
    """TLS is asked for by name, though the connection goes to this machine."""
    request.extensions["sni_hostname"] = FUNNEL
