"""`infra/vm/backup.sh` at both stacks: taken while they are in use, added to a bucket, put back."""

import subprocess

import pytest

from bucket_server import bucket_serving
from compose_stack import ROOT, Stack

pytestmark = [pytest.mark.containers, pytest.mark.timeout(900)]

SCRIPT = ROOT / "infra" / "vm" / "backup.sh"
SECONDS = 300


def run(stack: Stack, folder, *words, **settings):
    ours = {"BACKUP_SETTINGS": str(folder / "none"), "BACKUP_FOLDER": str(folder / "backups")}
    return subprocess.run(
        [SCRIPT, *words],
        env=stack.environment | ours | settings,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def write(stack: Stack, value):
    with stack.client() as client:
        client.call_tool("memory_set", {"key": "kept", "value": value})


def read(stack: Stack):
    with stack.client() as client:
        answer = client.call_tool("memory_get", {"key": "kept"})
        return answer["structuredContent"]["fact"]["value"]


@pytest.mark.parametrize(("profile", "ending"), [("lean", ".db.gz"), ("extended", ".dump")])
def test_the_memory_of_a_stack_is_backed_up_in_use_and_put_back(request, tmp_path, profile, ending):
    stack = request.getfixturevalue(profile)
    write(stack, "before")
    with bucket_serving() as bucket:
        taken = run(stack, tmp_path, **bucket.settings)
    assert taken.returncode == 0, taken.stdout + taken.stderr
    (backup,) = (tmp_path / "backups").glob(f"memory-*{ending}")
    assert bucket.objects == {backup.name: backup.read_bytes()}

    damaged = tmp_path / "damaged"
    damaged.write_bytes(backup.read_bytes()[:-200])
    refused = run(stack, tmp_path, "restore", str(damaged))
    assert refused.returncode == 1
    assert "is damaged" in refused.stderr

    write(stack, "after")
    restored = run(stack, tmp_path, "restore", "latest")
    assert restored.returncode == 0, restored.stdout + restored.stderr
    assert read(stack) == "before"
    if profile == "extended":
        (replaced,) = (tmp_path / "backups").glob("replaced-*.dump")
        assert run(stack, tmp_path, "restore", str(replaced)).returncode == 0
        assert read(stack) == "after"
    write(stack, "and on it goes")
    assert read(stack) == "and on it goes"
