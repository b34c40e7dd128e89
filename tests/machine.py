"""A Debian 13 with systemd in a container, to rehearse what is done to a machine as a whole."""

import os
import re
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from compose_stack import COMPOSE, ROOT
from waiting import wait_until

IMAGE = "memory-bridge-test-machine"
CONTEXT = Path(__file__).parent / "system" / "machine"
REPOSITORY = "/repository"
# What systemd and an engine in a container need; not everywhere may one be --privileged.
CAPABILITIES = (
    *("AUDIT_CONTROL", "AUDIT_WRITE", "DAC_READ_SEARCH", "IPC_LOCK", "LINUX_IMMUTABLE", "MKNOD"),
    *("NET_ADMIN", "SETFCAP", "SYS_ADMIN", "SYS_CHROOT", "SYS_NICE", "SYS_PTRACE", "SYSLOG"),
)
LOOP_DEVICES = "b 7:* rwm"
STARTING_SECONDS = 60
AS_A_LOG: dict[str, Any] = {
    "stdin": subprocess.DEVNULL,
    "stdout": subprocess.PIPE,
    "stderr": subprocess.STDOUT,
    "text": True,
}
NOT_BEGUN = re.compile(r"OCI runtime exec failed: .*cgroup\.procs: device or resource busy")
"""Systemd in the machine was making control groups, so that the engine had none for a command."""


@cache
def machine_image() -> str:
    """Built once; any Debian 13 with Python will do, and the base of our images is one."""
    text = (COMPOSE / "compose.yaml").read_text(encoding="utf-8")
    pinned = re.search(r"\$\{PYTHON_IMAGE:-(\S+)\}", text)
    assert pinned
    base = os.environ.get("PYTHON_IMAGE") or pinned[1]
    build = ["docker", "build", "--quiet", "--build-arg", f"PYTHON_IMAGE={base}", "--tag", IMAGE]
    done = subprocess.run(
        [*build, CONTEXT], capture_output=True, text=True, timeout=540, check=False
    )
    assert done.returncode == 0, done.stderr
    return IMAGE


class Machine:
    def __init__(self, name: str) -> None:
        self.name = name

    def run(self, *command: str, **settings: str) -> subprocess.CompletedProcess[str]:
        """Standard error is in the output, in the order of a log."""
        done: list[subprocess.CompletedProcess[str]] = []

        def began() -> bool:
            words = [*self._exec(settings), *command]
            done.append(subprocess.run(words, timeout=400, check=False, **AS_A_LOG))
            return not NOT_BEGUN.match(done[-1].stdout)

        wait_until(began, about="the engine begins a command")
        return done[-1]

    def ask(self, *command: str) -> str:
        done = self.run(*command)
        assert done.returncode == 0, done.stdout
        return done.stdout.strip()

    def shell(self, script: str) -> str:
        return self.ask("bash", "-euo", "pipefail", "-c", script)

    def begin(self, *command: str, **settings: str) -> subprocess.Popen[str]:
        return subprocess.Popen([*self._exec(settings), *command], **AS_A_LOG)

    def attach_disk(self, image: str, name: str, size: str = "6G") -> None:
        """A file as a disk of a cloud, where it goes by its name; it outlives the machine."""
        self.shell(
            f"mkdir -p $(dirname {image}) /dev/disk/by-id;"
            f"[ -e {image} ] || truncate --size {size} {image};"
            "for n in $(seq 0 15); do [ -b /dev/loop$n ] || mknod /dev/loop$n b 7 $n; done;"
            f"disk=$(losetup --find --show {image});"
            f"echo $disk >>/run/attached; ln -sf $disk /dev/disk/by-id/google-{name}"
        )

    def remove(self) -> None:
        # A loop device is of the whole host: it goes with the last who uses it.
        self.run("sh", "-c", "[ ! -e /run/attached ] || xargs -n 1 losetup --detach </run/attached")
        subprocess.run(
            ["docker", "rm", "--force", "--volumes", self.name],
            capture_output=True,
            timeout=60,
            check=True,
        )

    def wait_until_started(self) -> None:
        states = ("running", "degraded")
        wait_until(
            lambda: self.run("systemctl", "is-system-running").stdout.strip() in states,
            seconds=STARTING_SECONDS,
            about="the start of systemd",
        )

    def _exec(self, settings: dict[str, str]) -> list[str]:
        variables = [word for name, value in settings.items() for word in ("-e", f"{name}={value}")]
        return ["docker", "exec", *variables, self.name]


@contextmanager
def machine(*volumes: str, image: str = "") -> Iterator[Machine]:
    """Has this repository at /repository; `volumes` are as for `docker run`."""
    name = f"memory-bridge-test-machine-{secrets.token_hex(4)}"
    rights = [word for each in CAPABILITIES for word in ("--cap-add", each)]
    confined = ("seccomp=unconfined", "apparmor=unconfined", "systempaths=unconfined")
    mounts = (*volumes, f"{_cgroups()}:/sys/fs/cgroup:rw", f"{ROOT}:{REPOSITORY}:ro")
    subprocess.run(
        [
            *("docker", "run", "--detach", "--name", name, "--env", "container=docker", *rights),
            *(word for each in confined for word in ("--security-opt", each)),
            *("--device-cgroup-rule", LOOP_DEVICES, "--cgroupns", "host"),
            *("--tmpfs", "/run:exec", "--tmpfs", "/run/lock", "--tmpfs", "/tmp:exec"),
            *(word for each in mounts for word in ("--volume", each)),
            image or machine_image(),
        ],
        capture_output=True,
        timeout=60,
        check=True,
    )
    started = Machine(name)
    try:
        started.wait_until_started()
        yield started
    finally:
        started.remove()


def _cgroups() -> Path:
    """Those of version 2, which systemd wants, also where the host has both."""
    both = Path("/sys/fs/cgroup/unified")
    return both if both.is_dir() else both.parent
