"""The gateway as a process of its own, with the store in another that comes and goes."""

import re
import signal
import sqlite3
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager

import httpx2
import pytest

from apart import SECRET, gateway_over, store_serving
from event_streams import following
from gateway_serving import (
    ACCEPT,
    AUTHORIZED,
    MODERN,
    SECONDS,
    TOKEN,
    command,
    environment,
    message,
    modern,
)
from memory_store.settings import ClientSettings, SettingsError, read

MANY = 80
"""Writes: more than a store takes up at once."""
SHUTDOWN_SECONDS = 5.0
READ_SECONDS = 5.0
"""Far above what a read takes, far below what the writes wait."""


def call(gateway, tool, **arguments):
    request = modern("tools/call", name=tool, arguments=arguments)
    names = MODERN | {"Mcp-Method": "tools/call", "Mcp-Name": tool}
    with httpx2.Client(timeout=SECONDS, headers=AUTHORIZED | ACCEPT, verify=False) as web:
        response = web.post(gateway.url, json=request, headers=names)
    return message(response)["result"]


def ready(gateway):
    return httpx2.get(f"http://127.0.0.1:{gateway.port}/readyz", timeout=SECONDS).status_code


def told(gateway):
    url = f"http://127.0.0.1:{gateway.port}/readyz"
    return httpx2.get(url, timeout=SECONDS).json()["checks"]


def gauge(gateway, name):
    url = f"http://127.0.0.1:{gateway.port}/metrics"
    text = httpx2.get(url, headers=AUTHORIZED, timeout=SECONDS).text
    return float(re.search(rf"^\w*{name} ([0-9.]+)$", text, re.MULTILINE)[1])


def wait_for(condition):
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)


def test_two_gateways_over_one_store_serve_one_memory(tmp_path):
    with (
        store_serving(tmp_path / "memory.db") as store,
        gateway_over(store) as one,
        gateway_over(store) as other,
    ):
        call(one, "memory_set", key="k", value="v")
        assert call(other, "memory_get", key="k")["structuredContent"]["fact"]["value"] == "v"
        assert ready(one) == 200


def test_a_gateway_outlives_its_store_and_goes_on_by_itself(tmp_path):
    database = tmp_path / "memory.db"
    with ExitStack() as stores:
        store = stores.enter_context(store_serving(database))
        with gateway_over(store) as gateway:
            call(gateway, "memory_set", key="k", value="v")
            stores.close()
            assert ready(gateway) == 503
            assert told(gateway) == {"store": "down", "model": "off"}
            refused = call(gateway, "memory_get", key="k")
            problem = refused["structuredContent"]["problem"]
            assert (problem["code"], problem["retryable"]) == ("unavailable", True)
            stores.enter_context(store_serving(database, store.port))
            wait_for(lambda: ready(gateway) == 200)
            assert call(gateway, "memory_get", key="k")["structuredContent"]["found"]


def test_reads_do_not_wait_behind_many_writes_that_wait_for_the_lock(tmp_path):
    database = tmp_path / "memory.db"
    settings = {"MCP_SQLITE_BUSY_TIMEOUT": "60000"}
    with (
        store_serving(database, **settings) as store,
        gateway_over(store, MCP_RATE_BURST="100000") as gateway,
        ThreadPoolExecutor(MANY) as threads,
        closing(sqlite3.connect(database, isolation_level=None)) as connection,
    ):
        connection.execute("BEGIN IMMEDIATE")
        writes = [
            threads.submit(call, gateway, "memory_set", key=f"k{number}", value="v")
            for number in range(MANY)
        ]
        wait_for(lambda: gauge(gateway, "calls_waiting") >= MANY)
        began = time.monotonic()
        assert not call(gateway, "memory_get", key="k")["structuredContent"]["found"]
        assert ready(gateway) == 200
        assert time.monotonic() - began < READ_SECONDS
        connection.execute("ROLLBACK")
        assert not any(write.result(SECONDS).get("isError") for write in writes)


def test_a_gateway_may_start_before_its_store(tmp_path):
    with store_serving(tmp_path / "other.db") as before:
        port = before.port
    with gateway_over(before) as gateway:
        assert ready(gateway) == 503
        assert any("does not answer yet" in line for line in gateway.before)
        with store_serving(tmp_path / "memory.db", port):
            wait_for(lambda: ready(gateway) == 200)
            assert not call(gateway, "memory_set", key="k", value="v").get("isError")


def test_what_one_gateway_writes_is_heard_at_the_other_across_a_restart_of_the_store(tmp_path):
    database = tmp_path / "memory.db"
    with ExitStack() as stores:
        store = stores.enter_context(store_serving(database))
        with (
            gateway_over(store) as heard,
            gateway_over(store) as written,
            following(heard) as follower,
        ):
            call(written, "memory_set", key="before", value="v")
            assert follower.keys(1) == ["before"]
            stores.close()
            stores.enter_context(store_serving(database, store.port))
            for number in range(20):
                call(written, "memory_set", key=f"after {number}", value="v")
            assert follower.keys(20) == [f"after {number}" for number in range(20)]


def test_sigterm_ends_a_gateway_soon_that_waits_for_its_store_to_tell_of_changes(tmp_path):
    with store_serving(tmp_path / "memory.db") as store, gateway_over(store) as gateway:
        with following(gateway):
            told = time.monotonic()
            code, said = gateway.stop(signal.SIGTERM)
        assert time.monotonic() - told < SHUTDOWN_SECONDS
    assert (code, "Traceback" in said) == (0, False)


def test_a_gateway_that_is_to_embed_and_has_no_model_says_so_and_goes_on(tmp_path):
    settings = {"MCP_EMBEDDINGS": "on", "MCP_EMBED_CHANGES": "on", "MCP_MODEL_DIR": str(tmp_path)}
    with store_serving(tmp_path / "memory.db") as store, gateway_over(store, **settings) as gateway:
        call(gateway, "memory_set", key="k", value="the database is Postgres")
        found = call(gateway, "memory_search", query="database")["structuredContent"]
        assert (found["mode"], len(found["hits"])) == ("lexical", 1)
        assert found["degraded"]
        wait_for(lambda: any("embedder" in line for line in [*gateway.before, *gateway.errors]))


def test_a_gateway_embeds_what_was_written_where_nobody_else_does(tmp_path):
    settings = {"MCP_EMBEDDINGS": "on", "MCP_EMBED_CHANGES": "on"}
    with store_serving(tmp_path / "memory.db") as store, gateway_over(store, **settings) as gateway:
        call(gateway, "memory_set", key="k", value="the database is Postgres")
        wait_for(lambda: index_of(gateway, "k") == "ready")


def index_of(gateway, key):
    return call(gateway, "memory_get", key=key)["structuredContent"]["fact"]["index"]


@contextmanager
def started(**settings):
    yield subprocess.run(
        command("--http"),
        env=environment(MCP_AUTH_TOKEN=TOKEN, MCP_HTTP_PORT="0", **settings),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def test_a_wrong_secret_is_a_sentence_at_the_start(tmp_path):
    with store_serving(tmp_path / "memory.db") as store:
        wrong = {"MCP_STORE_URL": store.url, "MCP_STORE_SECRET": "another one altogether"}
        with started(**wrong) as ended:
            assert ended.returncode == 1
    assert "The secret is not the store's" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "MCP_STORE_SECRET_FILE"),
        ({"MCP_STORE_SECRET": SECRET, "MCP_MEMORY_DB": "m.db"}, "MCP_STORE_URL"),
        ({"MCP_STORE_SECRET": SECRET, "MCP_STORE_URL": "redis://x"}, "http://host:8100"),
    ],
)
def test_what_does_not_go_together_is_a_sentence_at_the_start(settings, words):
    with started(**({"MCP_STORE_URL": "http://127.0.0.1:1"} | settings)) as ended:
        assert ended.returncode == 2
    assert words in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_file_on_the_line_wins_over_a_store_in_the_environment(tmp_path):
    with gateway_over(None, str(tmp_path / "memory.db")) as gateway:
        assert not call(gateway, "memory_set", key="k", value="v").get("isError")
    assert (tmp_path / "memory.db").exists()


@pytest.mark.parametrize("url", ["store", "http://", "ftp://x", "http://user:pass@x", "http://[x"])
def test_what_is_no_address_of_a_store_is_named(monkeypatch, url):
    monkeypatch.setenv("MCP_STORE_URL", url)
    monkeypatch.setenv("MCP_STORE_SECRET", SECRET)
    with pytest.raises(SettingsError, match=r"MCP_STORE_URL must be an address such as http"):
        read(ClientSettings)


def test_the_secret_may_stand_in_a_file(monkeypatch, tmp_path):
    file = tmp_path / "secret"
    file.write_text(f"{SECRET}\n")
    monkeypatch.setenv("MCP_STORE_URL", "https://store:8100")
    monkeypatch.setenv("MCP_STORE_SECRET_FILE", str(file))
    assert read(ClientSettings).secret.get_secret_value() == SECRET
