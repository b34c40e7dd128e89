"""The doctor at a stack, as docs/operations.md says it is called."""

import json
import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.containers, pytest.mark.timeout(900)]


def test_a_stack_is_found_well_from_inside_and_from_its_host(lean):
    inside = lean.run_in("gateway", "memory-bridge", "doctor", "--json")
    told = {it["check"]: it for it in json.loads(inside.stdout)["findings"]}
    assert (inside.returncode, inside.stderr) == (0, "")
    assert {told[name]["state"] for name in ("store", "queue", "token file", "token")} == {"ok"}
    assert "MB left" in told["disk"]["says"]

    command = [sys.executable, "-m", "memory_bridge", "doctor", "--url", lean.url]
    outside = subprocess.run(
        [*command, "--token-file", lean.secrets / "auth_token"],
        env={name: value for name, value in os.environ.items() if not name.startswith("MCP_")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (outside.returncode, outside.stderr) == (0, "")
    assert "Search by meaning works" in outside.stdout
