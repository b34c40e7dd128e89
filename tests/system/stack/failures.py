"""What goes wrong with the containers of a stack."""

import shlex
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from compose_stack import Stack, inspect
from waiting import wait_until

START_SECONDS = 120.0


def crash(container: str) -> None:
    """Kills the processes of a container, which the engine starts again by itself."""
    before = inspect(container)["RestartCount"]
    # All but the first one, which is the engine's and ends with its child.
    _docker("exec", container, "sh", "-c", "kill -s KILL -- -1", fails=True)
    wait_until(
        lambda: inspect(container)["RestartCount"] > before, seconds=START_SECONDS, about=container
    )


def recovery(stack: Stack) -> float:
    """Returns the moment from which on all containers are healthy again."""
    containers = stack.containers()
    wait_until(
        lambda: {_health(container) for container in containers} == {"healthy"},
        seconds=START_SECONDS,
        about=containers,
    )
    return time.monotonic()


def _health(container: str) -> str:
    return inspect(container)["State"]["Health"]["Status"]


@contextmanager
def away(stack: Stack, service: str) -> Iterator[None]:
    """The service is killed, and does not come back before the context ends."""
    stack.compose("kill", service)
    try:
        yield
    finally:
        stack.compose("start", service)


@contextmanager
def cut_off(stack: Stack, service: str) -> Iterator[None]:
    """No packet reaches the service nor leaves it, and nobody is told that. It comes back under
    another address, since its own is taken meanwhile."""
    network, [container] = f"{stack.project}_inside", stack.containers(service)
    image = inspect(container)["Image"]
    _docker("network", "disconnect", network, container)
    other = _docker("run", "--detach", "--rm", "--network", network, image, "sleep", "600").strip()
    try:
        yield
    finally:
        _docker("network", "connect", "--alias", service, network, container)
        _docker("rm", "--force", other)


def in_redis(stack: Stack, *command: str) -> str:
    words = f"REDISCLI_AUTH=$(cat /run/secrets/redis_password) redis-cli {shlex.join(command)}"
    return stack.run_in("redis", "sh", "-c", words).stdout.strip()


def logged(container: str, since: float) -> str:
    """What a container has said since a moment, in seconds since the epoch."""
    return _docker("logs", "--since", f"{since:.6f}", container)


def _docker(*arguments: str, fails: bool = False) -> str:
    done = subprocess.run(
        ["docker", *arguments],
        check=not fails,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    return done.stdout
