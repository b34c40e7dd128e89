"""The names of settings that the command line knows by heart."""

import pytest

from memory_bridge.variables import KNOWN, PREFIX

gateway = pytest.importorskip("memory_gateway.settings", reason="needs the extra `server`")
store = pytest.importorskip("memory_store.settings", reason="needs the extra `server`")
embedder = pytest.importorskip("memory_embedder.settings", reason="needs the extra `server`")


def test_they_are_those_of_the_server_and_its_own():
    of_the_server = gateway.variable_names(
        gateway.GatewaySettings,
        store.StoreSettings,
        store.ServerSettings,
        store.ClientSettings,
        embedder.EmbedderSettings,
        embedder.WorkerSettings,
        embedder.RedisSettings,
    )
    ours = {name for name in of_the_server if name.startswith(PREFIX)}
    assert ours | {"MCP_URL", "MCP_DEBUG"} == KNOWN
