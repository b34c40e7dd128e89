"""`stack rotate-token` and `end-token`, and a gateway that reads the files that they write."""

import os
import subprocess
from pathlib import Path

import httpx2
import pytest

from gateway_serving import SECONDS, http_server
from waiting import wait_until

STACK = Path(__file__).parents[2] / "infra" / "compose" / "stack"
OLD = "the-token-of-before-0123456789"


@pytest.fixture
def secrets(tmp_path):
    folder = tmp_path / "the secrets"
    folder.mkdir()
    (folder / "auth_token").write_text(OLD)
    (folder / "auth_token_previous").touch()
    return folder


def stack(secrets, word):
    return subprocess.run(
        [STACK, word],
        env={"PATH": os.environ["PATH"], "MEMORY_BRIDGE_SECRETS": str(secrets)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_both_tokens_are_good_until_the_old_one_is_ended(secrets, tmp_path):
    files = {
        "MCP_AUTH_TOKEN": "",
        "MCP_AUTH_TOKEN_FILE": str(secrets / "auth_token"),
        "MCP_AUTH_TOKEN_PREVIOUS_FILE": str(secrets / "auth_token_previous"),
    }
    before = {file.name: file.stat().st_ino for file in secrets.iterdir()}
    with http_server(tmp_path / "memory.db", **files) as server:

        def is_good(token):
            url = f"http://127.0.0.1:{server.port}/api/v1/version"
            headers = {"Authorization": f"Bearer {token}"}
            return httpx2.get(url, headers=headers, timeout=SECONDS).status_code == 200

        assert is_good(OLD)
        rotated = stack(secrets, "rotate-token")
        assert rotated.returncode == 0, rotated.stderr
        new = (secrets / "auth_token").read_text()
        assert new not in rotated.stdout + rotated.stderr
        wait_until(lambda: is_good(new))
        assert is_good(OLD)
        assert stack(secrets, "end-token").returncode == 0
        wait_until(lambda: not is_good(OLD))
        assert is_good(new)
    # Containers hold on to the files themselves.
    assert {file.name: file.stat().st_ino for file in secrets.iterdir()} == before
    assert {file.stat().st_mode & 0o777 for file in secrets.iterdir()} == {0o444}


def test_a_stack_that_was_never_started_has_no_token_to_change(tmp_path):
    refused = stack(tmp_path, "rotate-token")
    assert refused.returncode == 1
    assert "make up" in refused.stderr
    assert list(tmp_path.iterdir()) == []
