"""The store as a process of its own."""

import os
import re
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager

import pytest

from memory_store.client import HttpStore
from memory_store.contract import Caller, FactWrite, Internal, Unavailable
from memory_store.settings import ServerSettings, SettingsError, read

CALLER = Caller(principal="p", source_client="c")
SECRET = "sixteen letters and more"
PROGRAM = [sys.executable, "-m", "memory_store.main"]


@pytest.fixture
def environment(tmp_path):
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MCP_")}
    ours = {"MCP_MEMORY_DB": str(tmp_path / "memory.db"), "MCP_STORE_PORT": "0"}
    return inherited | ours


@contextmanager
def running(environment):
    """Yields the process and its address, which uvicorn says when it listens."""
    with subprocess.Popen(PROGRAM, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            said = iter(process.stderr.readline, "")
            lines = (re.search(r"http://127\.0\.0\.1:\d+", line) for line in said)
            yield process, next(found.group() for found in lines if found)
        finally:
            process.kill()


def refusal(environment, status=1):
    run = subprocess.run(
        PROGRAM, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert run.returncode == status
    assert "Traceback" not in run.stderr
    return run.stderr


def test_a_fact_outlives_the_process_that_stored_it(environment, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text(f"{SECRET}\n")
    environment["MCP_STORE_SECRET_FILE"] = str(secret)
    with running(environment) as (process, url):
        HttpStore(url, SECRET).fact_set(CALLER, FactWrite(key="k", value="é🦉"))
        with pytest.raises(Internal, match="secret"):
            HttpStore(url, "another secret of theirs").stats()
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    with running(environment) as (_, url):
        assert HttpStore(url, SECRET).fact_get(CALLER, "default", "k").value == "é🦉"


def test_sigterm_writes_the_trail_of_reads_before_the_process_ends(environment, tmp_path):
    environment["MCP_STORE_SECRET"] = SECRET
    with running(environment) as (process, url):
        HttpStore(url, SECRET).fact_get(CALLER, "default", "asked for")
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    database = sqlite3.connect(tmp_path / "memory.db")
    assert database.execute("SELECT count(*) FROM event WHERE kind = 'get'").fetchone() == (1,)
    database.close()


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_the_end_of_the_process_ends_the_waiting_of_who_follows(environment, sent):
    environment["MCP_STORE_SECRET"] = SECRET
    with running(environment) as (process, url), ThreadPoolExecutor(4) as threads:
        store = HttpStore(url, SECRET)
        followers = [threads.submit(store.event_follow, 0, wait_seconds=30) for _ in range(4)]
        assert not wait(followers, timeout=0.5).done
        process.send_signal(sent)
        assert process.wait(10) == 0
        for follower in followers:
            with pytest.raises(Unavailable, match="closing"):
                follower.result(3)


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ({}, "behind a secret of at least 16 characters: set either MCP_STORE_SECRET or"),
        ({"SECRET": ""}, "set either MCP_STORE_SECRET or MCP_STORE_SECRET_FILE"),
        ({"SECRET": SECRET, "SECRET_FILE": "x"}, "set either MCP_STORE_SECRET or"),
        ({"SECRET": "fifteen letters"}, "MCP_STORE_SECRET is not allowed: .* 16 "),
        ({"SECRET": f"{SECRET}\n"}, "MCP_STORE_SECRET is not allowed: .* printable"),
        ({"SECRET_FILE": "/nowhere"}, "MCP_STORE_SECRET_FILE must name a readable text file"),
        ({"SECRET": SECRET, "PORT": "http"}, "MCP_STORE_PORT is not allowed: .* integer"),
        ({"SECRET": SECRET, "PORT": "70000"}, "MCP_STORE_PORT is not allowed: .* 65535"),
    ],
)
def test_a_setting_that_is_not_allowed_is_named_and_its_value_is_not(
    setting, sentence, monkeypatch
):
    for name, value in setting.items():
        monkeypatch.setenv(f"MCP_STORE_{name}", value)

    with pytest.raises(SettingsError, match=sentence) as refused:
        read(ServerSettings)
    assert "letters" not in str(refused.value)


def test_a_bad_setting_stops_the_start(environment):
    bad = {"MCP_STORE_SECRET": SECRET, "MCP_SQLITE_BUSY_TIMEOUT": "-1"}
    said = refusal(environment | bad, status=2)

    assert "MCP_SQLITE_BUSY_TIMEOUT must be a number of milliseconds from 0" in said


def test_the_database_of_another_program_is_left_alone(environment, tmp_path):
    other = sqlite3.connect(tmp_path / "memory.db")
    other.execute("CREATE TABLE theirs (a)")
    other.close()

    assert "name another file" in refusal(environment | {"MCP_STORE_SECRET": SECRET})
