"""The memory as a service of a Debian host: installed, hardened, installed again."""

import json
import re
import shutil
import subprocess

import pytest

from compose_stack import ROOT
from machine import REPOSITORY, Machine, machine, machine_image
from memory_embedder.sources import SOURCES
from waiting import wait_until

pytestmark = [pytest.mark.containers, pytest.mark.timeout(900)]

IMAGE = "memory-bridge-test-machine-with-packages"
INSTALL = f"{REPOSITORY}/infra/systemd/install"
UNIT = "memory-bridge.service"
COMMAND = "/opt/memory-bridge/bin/memory-bridge"
CLIENT = "--url http://127.0.0.1:8000/mcp --token-file /etc/memory-bridge/token"
READY = ("curl", "--silent", "--fail", "http://127.0.0.1:8000/readyz")
MOST_EXPOSURE = 2.0


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    folder = tmp_path_factory.mktemp("image")
    for name in ("server.lock", "build.lock"):
        shutil.copy(ROOT / "requirements" / name, folder)
    lines = "".join(f"{source.requirement}\n" for source in SOURCES)
    (folder / "sources.txt").write_text(lines)
    shutil.copy(ROOT / "tests/system/systemd/Dockerfile", folder)
    command = ["docker", "build", "--quiet", "--tag", IMAGE]
    done = subprocess.run(
        [*command, "--build-arg", f"MACHINE={machine_image()}", folder],
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return IMAGE


@pytest.fixture(scope="module")
def host(image):
    with machine(image=image) as host:
        said = host.ask(INSTALL)
        assert "The memory is served at   http://127.0.0.1:8000/mcp" in said
        yield host


def remember(host: Machine, words: str) -> str:
    return host.shell(f"{COMMAND} {words} {CLIENT}")


def unit(host: Machine, name: str) -> str:
    return host.ask("systemctl", "show", UNIT, "--property", name, "--value")


def test_it_serves_and_finds_by_meaning(host):
    remember(host, "set garden/roses 'The roses want pruning in March.'")
    remember(host, "set cellar/pump 'The pump leaks oil.'")
    question = f"{COMMAND} search 'when are the flowers cut back?' --mode semantic --json {CLIENT}"

    def best():
        # Nothing found is a failure of the command.
        hits = json.loads(host.run("sh", "-c", question).stdout)["hits"]
        return hits[0]["fact"] if hits else {}

    wait_until(lambda: best().get("index") == "ready", seconds=90, about="the vectors")
    assert best()["value"] == "The roses want pruning in March."


def test_installing_again_keeps_the_memory_the_token_and_the_settings(host):
    remember(host, "set kept yes")
    host.shell("echo MCP_RATE_BURST=77 >/etc/memory-bridge/settings.env")
    before = host.ask("sha256sum", "/etc/memory-bridge/token", "/etc/memory-bridge/settings.env")
    host.ask(INSTALL)
    assert host.ask("sha256sum", "/etc/memory-bridge/token", "/etc/memory-bridge/settings.env") == (
        before
    )
    assert "yes" in remember(host, "get kept")
    assert "MCP_RATE_BURST=77" in host.shell(
        f"tr '\\0' '\\n' </proc/{unit(host, 'MainPID')}/environ"
    )


def test_the_unit_has_no_fault_and_little_reach(host):
    path = f"/etc/systemd/system/{UNIT}"
    assert host.ask("systemd-analyze", "verify", path) == ""
    said = host.ask("systemd-analyze", "security", "--no-pager", UNIT)
    exposure = float(re.search(r"Overall exposure level for \S+: ([\d.]+)", said)[1])
    assert exposure <= MOST_EXPOSURE


def test_it_runs_as_a_user_of_its_own_on_loopback_alone(host):
    pid = unit(host, "MainPID")
    assert host.ask("ps", "-o", "user:20=", "-p", pid) == "memory-bridge"
    assert host.ask("stat", "--format", "%a %U", "/var/lib/memory-bridge") == "700 memory-bridge"
    assert host.ask("stat", "--format", "%a %U %G", "/etc/memory-bridge/token") == (
        "640 root memory-bridge"
    )
    listening = host.shell("ss --tcp --listening --numeric --no-header | awk '{print $4}'")
    assert "127.0.0.1:8000" in listening.split()
    assert "0.0.0.0:8000" not in listening
    assert host.ask("systemctl", "is-enabled", UNIT) == "enabled"


def test_it_ends_in_time_and_comes_back_when_it_is_killed(host):
    before = unit(host, "MainPID")
    host.ask("kill", "-KILL", before)
    wait_until(lambda: unit(host, "MainPID") not in (before, "0"), about="another process")
    wait_until(lambda: host.run(*READY).returncode == 0, seconds=60, about="an answer")
    host.ask("systemctl", "stop", UNIT)
    assert unit(host, "Result") == "success"
    host.ask("systemctl", "start", UNIT)
