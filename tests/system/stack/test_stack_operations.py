"""What docs/containers.md says of the stack works as it stands there."""

import os
import re
import subprocess

import pytest

from compose_stack import COMPOSE, ROOT, Stack, running

pytestmark = [pytest.mark.containers, pytest.mark.timeout(900)]

PAGE = (ROOT / "docs" / "containers.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
COPYING, RESTORING, MOVING, _RELEASES = COMMANDS


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    with running(tmp_path_factory.mktemp("operated")) as stack:
        yield stack


@pytest.fixture
def files():
    """The files that the commands leave where they are typed, which go again."""
    paths = [COMPOSE / "memory.db", COMPOSE / "memory.jsonl"]
    assert not any(path.exists() for path in paths), "they are somebody's"
    yield paths
    for path in paths:
        path.unlink(missing_ok=True)


def type_in(stack: Stack, commands: str) -> None:
    done = subprocess.run(
        ["bash", "-euc", commands],
        cwd=COMPOSE,
        env=stack.environment | {"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def write(stack, value):
    with stack.client() as client:
        client.call_tool("memory_set", {"key": "k", "value": value})


def read(stack):
    with stack.client() as client:
        return client.call_tool("memory_get", {"key": "k"})["structuredContent"]["fact"]["value"]


def test_a_backup_is_copied_out_and_restored(stack, files):
    write(stack, "before")
    type_in(stack, COPYING)
    assert all(path.stat().st_size for path in files)
    write(stack, "after")
    type_in(stack, RESTORING)
    assert read(stack) == "before"


def test_the_memory_moves_to_postgres(stack):
    write(stack, "in the file")
    type_in(stack, MOVING)
    stack.profile = "extended"
    assert stack.inspect("postgres")["State"]["Health"]["Status"] == "healthy"
    assert read(stack) == "in the file"
    write(stack, "in Postgres")
