"""Releases of the stack: in a registry of the test's own, or known to this machine alone."""

import os
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from compose_stack import COMPOSE, build_images, free_port
from machine import machine_image

SERVICES = ("gateway", "store", "embedder")
# Redis is published beside the services, since a machine in a rehearsal reaches this registry only.
REDIS = "redis:8"


def docker(*arguments: str, stdin: str | None = None) -> str:
    done = subprocess.run(
        ["docker", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def _publish(name: str, version: str, **settings: str) -> str:
    done = subprocess.run(
        [COMPOSE / "publish", name],
        env=os.environ | {"BUILD": "never", "MEMORY_BRIDGE_VERSION": version} | settings,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


def _tag_images(version: str, **changed: str) -> None:
    """As images of that version; `changed` has the lines of a Dockerfile for a service."""
    build_images()
    present = os.environ.get("MEMORY_BRIDGE_VERSION", "0.1.0")
    # No test of releases needs a model, which is the most of an image.
    origin = {"gateway": "gateway", "store": "store", "embedder": "store"}
    for service in SERVICES:
        lines = f"FROM memory-bridge-{origin[service]}:{present}\n{changed.get(service, '')}\n"
        docker("build", "--quiet", "--tag", f"memory-bridge-{service}:{version}", "-", stdin=lines)


def _forget(name: str, version: str) -> None:
    images = [f"{name}-{service}:{version}" for service in (*SERVICES, "release")]
    ours = [f"memory-bridge-{service}:{version}" for service in SERVICES]
    with suppress(AssertionError):  # some were never made, others are removed all the same
        docker("image", "rm", "--force", *images, *ours)


class LocalReleases:
    """Releases that are not pushed anywhere; afterwards their images are gone."""

    def __init__(self) -> None:
        self._made: list[str] = []

    def make(self, **changed: str) -> str:
        """Returns the image of a release of the present images with some changed."""
        version = f"0.0.0-{secrets.token_hex(4)}"
        self._made.append(version)
        _tag_images(version, **changed)
        return _publish("memory-bridge-test", version, PUSH="never")

    def remove(self) -> None:
        for version in self._made:
            _forget("memory-bridge-test", version)


@dataclass(frozen=True)
class Published:
    release: str
    images: str
    redis: str
    port: int
    volume: str


@contextmanager
def published() -> Iterator[Published]:
    """A release in a registry, whose files are in a volume and whose port is part of every name."""
    port, version = free_port(), f"0.0.0-{secrets.token_hex(4)}"
    name = f"memory-bridge-test-registry-{secrets.token_hex(4)}"
    address = f"127.0.0.1:{port}"
    images = f"{address}/memory-bridge"
    docker(
        *("run", "--detach", "--rm", "--name", name, "--publish", f"{address}:5000"),
        *("--volume", f"{name}:/var/lib/docker-registry", machine_image()),
        *("docker-registry", "serve", "/etc/registry.yml"),
    )
    try:
        _tag_images(version)
        docker("tag", os.environ.get("REDIS_IMAGE", REDIS), f"{address}/{REDIS}")
        docker("push", "--quiet", f"{address}/{REDIS}")
        yield Published(_publish(images, version), images, f"{address}/{REDIS}", port, name)
    finally:
        docker("rm", "--force", name)
        docker("volume", "rm", name)
        _forget(images, version)
        docker("image", "rm", "--force", f"{address}/{REDIS}")
