"""When the sidecar is ended by its watchdog, and when it is left alone, with a wget of our own."""

import os
import subprocess

import pytest

from compose_stack import COMPOSE
from waiting import wait_until

START, WATCHDOG = COMPOSE / "funnel" / "start", COMPOSE / "funnel" / "watchdog"
NAME = "memory.tail1234.ts.net"
WGET = """#!/bin/sh
for address; do :; done
case $address in
  https://{name}/healthz) test -e {folder}/public ;;
  http://gateway:8000/healthz) test -e {folder}/gateway ;;
  *) exit 99 ;;
esac
"""


class Watch:
    """A watchdog over a process of no use. What answers is a file of that name."""

    def __init__(self, folder, *, answering, in_vain=0):
        self.folder = folder
        wget = folder / "bin" / "wget"
        wget.parent.mkdir()
        wget.write_text(WGET.format(name=NAME, folder=folder))
        wget.chmod(0o755)
        self.count = folder / "restarts-in-vain"
        if in_vain:
            self.count.write_text(f"{in_vain}\n")
        for answers in answering:
            (folder / answers).touch()
        self.sidecar = subprocess.Popen(["sleep", "600"])
        self._said = folder / "said"
        with self._said.open("w") as said:
            self.watchdog = subprocess.Popen(
                ["sh", WATCHDOG, str(self.sidecar.pid)],
                env={
                    "PATH": f"{wget.parent}:{os.environ['PATH']}",
                    "FUNNEL": NAME,
                    "TS_STATE_DIR": str(folder),
                    "WATCHDOG_INTERVAL": "0.05",
                    "WATCHDOG_FAILURES": "2",
                },
                stderr=said,
            )

    @property
    def said(self):
        return self._said.read_text()

    @property
    def sidecar_lives(self):
        return self.sidecar.poll() is None

    def end(self):
        for process in (self.watchdog, self.sidecar):
            process.kill()
            process.wait()


@pytest.fixture
def watch(tmp_path):
    watches = []

    def begin(**given):
        watches.append(Watch(tmp_path, **given))
        return watches[-1]

    yield begin
    for each in watches:
        each.end()


def test_a_sidecar_whose_public_address_fails_twice_is_ended(watch):
    watched = watch(answering=["gateway"])
    wait_until(lambda: not watched.sidecar_lives)
    assert f"https://{NAME} does not answer, the gateway does (2 of 2)." in watched.said
    assert watched.count.read_text() == "1\n"


@pytest.mark.parametrize(("in_vain", "allowed"), [(1, 4), (3, 16), (30, 60)])
def test_each_restart_in_vain_doubles_the_patience_up_to_an_hour(watch, in_vain, allowed):
    watched = watch(answering=["gateway"], in_vain=in_vain)
    wait_until(lambda: f"(1 of {allowed})" in watched.said)
    assert watched.sidecar_lives


def test_an_answer_ends_the_counting(watch):
    watched = watch(answering=["gateway", "public"], in_vain=3)
    wait_until(lambda: not watched.count.exists())
    assert watched.sidecar_lives
    (watched.folder / "public").unlink()
    wait_until(lambda: "(1 of 2)" in watched.said)


def test_a_gateway_that_is_down_is_not_the_fault_of_the_sidecar(watch):
    watched = watch(answering=[])
    wait_until(lambda: watched.said.count("the gateway does not answer") > 5)
    assert watched.sidecar_lives


def start(folder, *command, **settings):
    environment = {
        "PATH": os.environ["PATH"],
        "FUNNEL": NAME,
        "TS_STATE_DIR": str(folder),
        "WATCHDOG_INTERVAL": "0.05",
    }
    return subprocess.run(
        ["sh", START, *command],
        env=environment | settings,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_sidecar_has_the_name_of_the_address_and_keeps_its_place_in_the_tailnet(tmp_path):
    seen = start(tmp_path, "env", TS_CLIENT_ID="abc").stdout.splitlines()
    assert "TS_HOSTNAME=memory" in seen
    assert "TS_CLIENT_ID=abc?ephemeral=false&preauthorized=true" in seen
    assert not any(line.startswith("TS_AUTHKEY") for line in seen)


def test_a_key_comes_from_its_file(tmp_path):
    (tmp_path / "tailscaled.state").write_text("{}")
    seen = start(tmp_path, "env").stdout.splitlines()
    assert "TS_AUTHKEY=file:/run/secrets/tailscale_authkey" in seen


def test_a_start_that_cannot_lead_into_a_tailnet_is_refused_with_a_sentence(tmp_path):
    done = start(tmp_path, "env")
    assert done.returncode == 1
    assert "put an auth key into the secret tailscale_authkey" in done.stderr
    done = start(tmp_path, "env", FUNNEL="memory.example.net", TS_CLIENT_ID="abc")
    assert done.returncode == 1
    assert done.stderr == (
        "FUNNEL must be a name such as memory.tail1234.ts.net, not memory.example.net.\n"
    )


def test_the_exit_code_of_the_sidecar_is_that_of_the_container(tmp_path):
    assert start(tmp_path, "sh", "-c", "exit 7", TS_CLIENT_ID="abc").returncode == 7
