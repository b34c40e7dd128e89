"""From one release to the next: only one whose stack gets healthy stays, and a way back is kept."""

import os
import secrets
import signal
import subprocess

import pytest

from compose_stack import COMPOSE, free_port
from memory_bridge.client import Client
from releases import LocalReleases, docker

pytestmark = [pytest.mark.containers, pytest.mark.timeout(900)]

WENT_BACK = 4
NEVER_HEALTHY = 'CMD ["sleep", "infinity"]'
SQL = "/opt/memory-bridge/lib/python3*/site-packages/memory_store/sql/sqlite"
CHANGES_THE_MEMORY = f"""
USER 0
RUN for folder in {SQL}; do echo 'CREATE TABLE later (x INTEGER);' >$folder/9999_later.sql; done
USER 10001:10001
"""

DIES = """
set -T
trap '[[ $BASH_COMMAND != "$LAST" ]] || kill -KILL $$' DEBUG
. "$0" upgrade "$1"
"""


class Host:
    """A machine that runs releases, in a folder and a project of its own."""

    def __init__(self, home):
        self.home = home
        self.project = f"memory-bridge-test-{secrets.token_hex(4)}"
        self.port = free_port()
        # Embedding is no part of it, and a store that checks its health seldom takes long to start.
        self.settings = {
            "COMPOSE_PROJECT_NAME": self.project,
            "MEMORY_BRIDGE_PORT": str(self.port),
            "MCP_EMBEDDINGS": "off",
            "EMBEDDERS": "0",
            "HEALTH_INTERVAL": "1s",
        }
        home.mkdir()
        lines = (f"{name}={value}\n" for name, value in self.settings.items())
        (home / "settings.env").write_text("".join(lines))

    def release(self, *words, **settings):
        return subprocess.run(
            [COMPOSE / "release", *words],
            env=os.environ | {"MEMORY_BRIDGE_HOME": str(self.home)} | settings,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=500,
            check=False,
        )

    def upgrade(self, release, **settings):
        done = self.release("upgrade", release, **settings)
        assert done.returncode == 0, done.stdout
        assert self.running() == release

    def upgrade_and_die_at(self, command, release):
        cut = subprocess.run(
            ["bash", "-c", DIES, COMPOSE / "release", release],
            env=os.environ
            | {"MEMORY_BRIDGE_HOME": str(self.home), "LAST": command, "WAIT_SECONDS": "5"},
            capture_output=True,
            timeout=300,
            check=False,
        )
        assert cut.returncode == -signal.SIGKILL, cut.stdout

    def running(self):
        return (self.home / "current" / "name").read_text().strip()

    def client(self):
        token = (self.home / "secrets" / "auth_token").read_text()
        return Client.http(f"http://127.0.0.1:{self.port}/mcp", token=token, name="a-test")

    def write(self, key):
        with self.client() as client:
            client.call_tool("memory_set", {"key": key, "value": "written"})

    def facts(self):
        with self.client() as client:
            facts = client.call_tool("memory_list", {})["structuredContent"]["facts"]
        return {fact["key"] for fact in facts}

    def remove(self):
        self.release("down", "--volumes")
        docker("volume", "rm", "--force", f"{self.project}_data")


@pytest.fixture(scope="module")
def releases():
    releases = LocalReleases()
    yield releases
    releases.remove()


@pytest.fixture(scope="module")
def first(releases):
    return releases.make()


@pytest.fixture(scope="module")
def broken(releases):
    return releases.make(gateway=NEVER_HEALTHY)


@pytest.fixture(scope="module")
def second(releases):
    return releases.make(gateway="LABEL second=yes", store="LABEL second=yes")


@pytest.fixture(scope="module")
def used(tmp_path_factory):
    host = Host(tmp_path_factory.mktemp("host") / "home")
    yield host
    host.remove()


@pytest.fixture
def host(used, first):
    """Runs the first release."""
    used.upgrade(first)
    return used


def test_a_stack_goes_to_the_next_release_and_back(host, first, second):
    host.write("before-second")
    host.upgrade(second)
    host.write("after-second")
    assert list((host.home / "backups" / "releases").glob("memory-*.db.gz"))
    done = host.release("rollback")
    assert done.returncode == 0, done.stdout
    assert host.running() == first
    assert {"before-second", "after-second"} <= host.facts()
    assert second in host.release("status").stdout


def test_a_release_that_never_gets_healthy_is_left_again_even_after_a_cut(host, broken, first):
    host.write("before-broken")
    host.upgrade_and_die_at("stack up", broken)
    assert "An upgrade has not come to its end" in host.release("status").stdout
    host.upgrade_and_die_at("takes_memory", broken)
    done = host.release("upgrade", broken, WAIT_SECONDS="5")
    assert done.returncode == WENT_BACK, done.stdout
    assert done.stdout.endswith(f"{first} runs again, as {broken} did not get healthy.\n")
    assert host.running() == first
    assert "before-broken" in host.facts()


def test_what_such_a_release_did_to_the_memory_is_undone(host, releases, first):
    broken = releases.make(gateway=NEVER_HEALTHY, store=CHANGES_THE_MEMORY)
    host.write("before-change")
    # The seconds are for the gateway, which waits for the store, and so for the change.
    done = host.release("upgrade", broken, WAIT_SECONDS="5")
    assert done.returncode == WENT_BACK, done.stdout
    assert "the backup from before is put back" in done.stdout
    assert host.running() == first
    assert "before-change" in host.facts()


def test_a_rollback_that_would_lose_what_was_written_must_be_meant(host, releases, first):
    later = releases.make(store=CHANGES_THE_MEMORY)
    host.write("before-later")
    host.upgrade(later)
    host.write("after-later")
    refused = host.release("rollback")
    assert refused.returncode == 1, refused.stdout
    assert "release rollback --with-backup" in refused.stdout
    assert host.running() == later
    assert {"before-later", "after-later"} <= host.facts()
    done = host.release("rollback", "--with-backup")
    assert done.returncode == 0, done.stdout
    assert host.running() == first
    assert "before-later" in host.facts()
    assert "after-later" not in host.facts()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["upgrade"], "Say which release: a version with its digest, or an image."),
        (["upgrade", "memory-bridge-none@sha256:" + 64 * "0"], "Nothing was changed."),
        (["rollback"], "No release came before."),
        (["logs"], "No release is here yet: release upgrade VERSION@DIGEST."),
    ],
)
def test_what_cannot_be_done_is_said(tmp_path, words, sentence):
    host = Host(tmp_path / "home")
    done = host.release(*words)
    assert done.returncode == 1
    assert done.stdout.strip().endswith(sentence)
