"""The stub before the gateway that it is shipped with: what the host follows outlives a restart."""

import pytest

from clients.restarting_gateway import RestartingGateway
from clients.stub_process import Stub
from memory_bridge import client as raw

pytest.importorskip("memory_gateway.main", reason="needs the extra `server`")

URI = "memory://default/a"
KINDS = {"resourcesListChanged": True, "resourceSubscriptions": [URI]}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    with RestartingGateway(tmp_path_factory.mktemp("gateway")).running() as gateway:
        yield gateway


@pytest.fixture
def host(gateway):
    host = Stub(gateway.stub())
    yield host
    host.process.kill()
    host.process.wait()


def write(gateway, value):
    """A write by somebody else."""
    with raw.Client.http(gateway.url, token=gateway.token_file.read_text()) as client:
        client.call_tool("memory_set", {"key": "a", "value": value})


def heard_of(host, uri=URI):
    """Listens until it is told that the fact was changed."""
    while True:
        message = host.heard()
        if message.get("method") == "notifications/resources/updated":
            assert message["params"]["uri"] == uri
            return


def restart(gateway):
    gateway.kill()
    gateway.start()


def test_a_subscription_of_the_handshake_era_outlives_the_gateway(gateway, host):
    host.initialize()
    host.request(1, "resources/subscribe", uri=URI)
    assert host.heard()["result"] == {}
    write(gateway, "1")
    heard_of(host)

    restart(gateway)

    heard_of(host)  # for what it may have missed
    write(gateway, "2")
    heard_of(host)


def test_a_subscription_of_the_modern_era_outlives_the_gateway(gateway, host):
    host.modern("s", "subscriptions/listen", notifications=KINDS)
    assert host.heard()["method"] == "notifications/subscriptions/acknowledged"
    write(gateway, "3")
    heard_of(host)

    restart(gateway)

    heard_of(host)
    write(gateway, "4")
    heard_of(host)


@pytest.mark.parametrize("tool", ["memory_set", "memory_delete", "memory_restore"])
def test_every_tool_that_writes_is_given_a_key(gateway, tool):
    with raw.Client.http(gateway.url, token=gateway.token_file.read_text()) as client:
        tools = {listed["name"]: listed["inputSchema"] for listed in client.list_tools()}
    assert "idempotency_key" in tools[tool]["properties"]
    assert (
        "idempotency_key" in tools["memory_set_many"]["properties"]["writes"]["items"]["properties"]
    )
