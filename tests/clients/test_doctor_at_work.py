"""The doctor at real gateways, each of which lacks something."""

import os
import socket
from pathlib import Path

import pytest

pytest.importorskip("memory_gateway.main", reason="needs the extra `server`")

from apart import gateway_over, store_serving
from gateway_serving import TOKEN, http_server
from memory_bridge import cli
from memory_bridge.doctor.examination import examine
from memory_bridge.doctor.target import Credentials, Target
from memory_store.opening import open_store
from memory_store.settings import StoreSettings
from store.office import Office
from tls_front import tls_front


def examined(url, token=TOKEN):
    return dict(examine(Target(url, Credentials(token), timeout=20.0)))


def bad(url, token=TOKEN):
    """What is wrong with the server, whatever the disk and memory of this machine have left."""
    found = examined(url, token)
    machines = ("disk", "memory")
    return {name: it.state for name, it in found.items() if it.cure and name not in machines}


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    return tmp_path_factory.mktemp("examined") / "memory.db"


@pytest.fixture(scope="module")
def served(database):
    with http_server(database) as server:
        yield server


def test_a_server_that_is_well_is_said_to_be(served):
    found = examined(served.url)
    assert bad(served.url) == {}
    assert "switched off" in found["model"].says
    assert "MB left" in found["disk"].says


def test_a_name_that_is_not_on_the_list_is_found(served):
    # Another spelling of the same address, which resolvers take.
    assert bad(served.url.replace("127.0.0.1", "127.1"))["allow-list"] == "failed"


def test_a_wrong_token_is_found(served):
    assert bad(served.url, "a-wrong-token-0123456789") == {"token": "failed"}


def test_a_token_for_one_namespace_is_enough_to_be_well(served, database):
    store = open_store(StoreSettings(memory_db=database))
    secret = Office(store).create("narrow", namespaces=("builds",)).secret
    store.close()
    assert bad(served.url, secret) == {}


def test_a_store_that_is_away_is_found():
    with gateway_over(None) as gateway:
        assert bad(gateway.url) == {"store": "failed"}


def test_a_queue_that_is_away_is_found(tmp_path):
    redis = {"MCP_REDIS_URL": "redis://127.0.0.1:1/0", "MCP_EMBEDDINGS": "on"}
    with store_serving(tmp_path / "memory.db") as store, gateway_over(store, **redis) as gateway:
        assert bad(gateway.url) == {"queue": "failed"}


def test_a_model_that_is_not_there_is_found(tmp_path):
    empty = tmp_path / "models"
    empty.mkdir()
    lacking = {"MCP_EMBEDDINGS": "on", "MCP_MODEL_DIR": str(empty), "MCP_EMBEDDING_MODEL": "none"}
    with http_server(tmp_path / "memory.db", **lacking) as server:
        assert cli.main(["set", "k", "v", "--url", server.url, "--token", TOKEN]) == 0
        assert set(bad(server.url)) == {"model"}


@pytest.mark.skipif(os.name == "nt", reason="there is no daemon on Windows")
def test_without_an_address_the_server_in_the_background_is_examined(tmp_path, monkeypatch, capsys):
    for name in ("MCP_URL", "MCP_AUTH_TOKEN", "MCP_AUTH_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {
        "MCP_MEMORY_STORE_DIR": str(tmp_path),
        "MCP_HTTP_PORT": "0",
        "MCP_EMBEDDINGS": "off",
    }.items():
        monkeypatch.setenv(name, value)
    assert cli.main(["daemon", "start"]) == 0
    try:
        cli.main(["doctor"])
        assert str(Path(tmp_path) / "token") in capsys.readouterr().out
    finally:
        cli.main(["daemon", "stop"])


PUBLIC = "memory.tail0000.ts.net"


@pytest.fixture
def funnelled(tmp_path, monkeypatch):
    """Leads the public name to a front of this machine that passes on to a port, as Funnel does."""
    look_up = socket.getaddrinfo

    def look_up_here(host, *rest, **named):
        return look_up("127.0.0.1" if host == PUBLIC else host, *rest, **named)

    def funnelled(port):
        front = tls_front(PUBLIC, port, tmp_path)
        monkeypatch.setattr(socket, "getaddrinfo", look_up_here)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "front.crt"))
        return front

    return funnelled


def test_a_server_behind_funnel_is_found_well_by_its_public_name(tmp_path, funnelled):
    known = {"MCP_ALLOWED_HOSTS": PUBLIC}
    with http_server(tmp_path / "memory.db", **known) as server, funnelled(server.port) as front:
        found = examined(front.url)
        assert bad(front.url) == {}
    assert "more days" in found["certificate"].says
    assert "encrypted" in found["privacy"].says


def test_a_public_name_that_is_not_allowed_is_found(served, funnelled):
    with funnelled(served.port) as front:
        found = examined(front.url)
    assert found["allow-list"].state == "failed"
    assert PUBLIC in found["allow-list"].cure


def test_a_front_with_nothing_behind_it_is_found(funnelled):
    with funnelled(1) as front:
        found = examined(front.url)
    assert found["certificate"].state == "ok"
    assert found["server"].state == "failed"
    assert "restart the sidecar" in found["server"].cure
