"""The stack's own token is changed while the stack runs, and both are good in between."""

import pytest

from memory_bridge.client import Client, Unauthorized
from waiting import wait_until

pytestmark = [pytest.mark.containers, pytest.mark.timeout(900)]


def is_good(stack, token):
    try:
        with Client.http(stack.url, token=token) as client:
            client.call_tool("memory_stats", {})
    except Unauthorized:
        return False
    return True


def test_the_token_is_changed_without_a_restart(lean):
    old, started = lean.token, lean.inspect("gateway")["State"]["StartedAt"]
    rotated = lean.make("rotate-token")
    assert rotated.returncode == 0, rotated.stderr
    new = lean.token
    assert new != old
    assert new not in rotated.stdout
    wait_until(lambda: is_good(lean, new))
    assert is_good(lean, old)
    assert lean.make("end-token").returncode == 0
    wait_until(lambda: not is_good(lean, old))
    assert is_good(lean, new)
    assert lean.inspect("gateway")["State"]["StartedAt"] == started
