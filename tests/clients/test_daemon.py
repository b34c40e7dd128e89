"""The server in the background: one of them, told apart from whatever else there is."""

import http.server
import json
import os
import re
import signal
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from clients.stub_process import Stub
from memory_bridge.client import Client
from memory_bridge.daemon.files import PidFile, Running, keep_token
from memory_bridge.processes import start_detached
from ports import free_port
from waiting import wait_until

SECONDS = 90


class Daemon:
    """The command `daemon` over one folder of state."""

    def __init__(self, folder, **settings):
        self.folder = folder
        self.port = free_port()
        self.token_file = folder / "token"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MCP_")}
        mine = {
            "MCP_MEMORY_STORE_DIR": str(folder),
            "MCP_HTTP_PORT": str(self.port),
            "MCP_EMBEDDINGS": "off",
        }
        self.environment = {**kept, **mine, **settings}

    def __call__(self, action, *options):
        command = [sys.executable, "-m", "memory_bridge", "daemon", action, *options]
        return subprocess.run(
            command,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    @property
    def status(self):
        return json.loads(self("status", "--json").stdout)


@pytest.fixture
def daemon(tmp_path):
    pytest.importorskip("memory_gateway.main", reason="needs the extra `server`")
    daemon = Daemon(tmp_path / "state")
    yield daemon
    daemon("stop")


def words(process):
    """The command line of a process, nothing if it is gone."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def has_ended(pid):
    """Whether a process is gone, or at least nobody's but to be counted."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_it_is_started_once_answers_and_is_stopped(daemon):
    assert daemon("status").returncode == 1

    started = json.loads(daemon("start", "--json").stdout)
    again = daemon("start")

    assert again.returncode == 0
    assert "already" in again.stdout
    assert started == daemon.status
    with Client.http(started["url"], token=daemon.token_file.read_text().strip()) as client:
        client.call_tool("memory_set", {"key": "a", "value": "b"})
    assert daemon("stop").returncode == 0
    wait_until(lambda: has_ended(started["pid"]))
    assert daemon("status").returncode == 1
    assert daemon("stop").returncode == 0


def test_the_token_that_is_told_is_the_one_of_the_server_that_runs(daemon, tmp_path):
    daemon.environment["MCP_AUTH_TOKEN_FILE"] = str(tmp_path / "first")
    assert daemon("start").returncode == 0
    daemon.environment["MCP_AUTH_TOKEN_FILE"] = str(tmp_path / "second")
    again = json.loads(daemon("start", "--json").stdout)
    assert again["token_file"] == daemon.status["token_file"] == str(tmp_path / "first")
    assert not (tmp_path / "second").exists()


def test_of_starts_at_once_one_is_the_servers(daemon):
    with ThreadPoolExecutor() as threads:
        started = list(threads.map(lambda _: daemon("start", "--json"), range(4)))
    assert [done.returncode for done in started] == [0, 0, 0, 0]
    assert len({json.loads(done.stdout)["pid"] for done in started}) == 1
    daemon("stop")
    assert not [it for it in psutil.process_iter() if str(daemon.folder) in " ".join(words(it))]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other permissions")
def test_nobody_else_may_read_its_files(daemon):
    daemon("start")
    for name in ("token", "daemon.log", "daemon.pid"):
        assert stat.S_IMODE((daemon.folder / name).stat().st_mode) == 0o600


def test_a_pid_file_that_was_left_behind_names_nobody(daemon):
    daemon("start")
    os.kill(daemon.status["pid"], signal.SIGKILL)
    wait_until(lambda: not daemon.status["running"])
    left = daemon.folder / "daemon.pid"
    left.write_text(f"{os.getpid()}\nhttp://127.0.0.1:1/mcp\n")  # as if the number was used again

    assert daemon.status["running"] is False
    daemon("stop")  # and this process is not the one that is ended
    assert daemon("start").returncode == 0
    assert daemon.status["pid"] != os.getpid()


def test_a_port_that_another_program_has_is_told_apart(daemon):
    server = http.server.HTTPServer(("127.0.0.1", daemon.port), http.server.BaseHTTPRequestHandler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    done = daemon("start")
    server.shutdown()
    server.server_close()
    assert done.returncode == 6
    assert f"Port {daemon.port} of 127.0.0.1 is taken by another program" in done.stderr
    assert daemon.status["running"] is False


def test_a_memory_bridge_of_another_folder_is_told_apart(daemon, tmp_path):
    daemon("start")
    other = Daemon(tmp_path / "other")
    other.environment["MCP_HTTP_PORT"] = str(daemon.port)
    done = other("start")
    assert done.returncode == 6
    assert "a Memory Bridge that this command has not started" in done.stderr


def test_a_server_that_cannot_start_says_why(daemon):
    (daemon.folder / "memory.db").mkdir(parents=True)
    done = daemon("start")
    assert done.returncode == 6
    assert "memory.db" in done.stderr


def test_a_bad_setting_of_the_server_is_one_of_the_command(daemon):
    daemon.environment["MCP_EMBEDDINGS"] = "perhaps"
    done = daemon("start")
    assert done.returncode == 2
    assert "MCP_EMBEDDINGS must be on or off" in done.stderr


def test_what_means_nothing_to_it_is_refused(daemon):
    assert daemon("start", "--url", "http://127.0.0.1:9").returncode == 2
    daemon.environment["MCP_HTTP_PORT"] = "many"
    assert daemon("status").returncode == 2


def test_a_stub_wakes_it_with_a_token_that_is_made_then(daemon):
    url = f"http://127.0.0.1:{daemon.port}/mcp"
    wake = f'"{sys.executable}" -m memory_bridge daemon start'
    words = ["stdio", "--url", url, "--token-file", str(daemon.token_file), "--wake", wake]
    settings = {name: value for name, value in daemon.environment.items() if "MCP_" in name}
    host = Stub([sys.executable, "-m", "memory_bridge", *words], **settings)
    assert host.initialize()["result"]["serverInfo"]["name"] == "memory-bridge"
    assert host.end_input() == 0
    assert daemon.status["running"] is True


def test_who_holds_the_pid_file_is_named(tmp_path):
    pid_file = PidFile(tmp_path / "daemon.pid")
    assert pid_file.running() is None
    with pid_file.claim():
        assert pid_file.running() == Running(os.getpid(), None)
        pid_file.add_place("http://127.0.0.1:1/mcp", tmp_path / "token")
        expected = Running(os.getpid(), "http://127.0.0.1:1/mcp", tmp_path / "token")
        assert pid_file.running() == expected
        assert pid_file.claim() is None
    assert pid_file.running() is None


def test_of_tokens_made_at_the_same_moment_one_is_kept(tmp_path, monkeypatch):
    token, makers = tmp_path / "state" / "token", 8
    all_are_at_it = threading.Barrier(makers)
    made = iter(f"token-{number}" for number in range(makers))

    def make(_bytes):
        all_are_at_it.wait(SECONDS)
        return next(made)

    monkeypatch.setattr("secrets.token_urlsafe", make)
    with ThreadPoolExecutor(makers) as threads:
        list(threads.map(lambda _: keep_token(token), range(makers)))
    kept = token.read_text()
    keep_token(token)
    assert token.read_text() == kept
    assert re.fullmatch(r"token-\d\n", kept)
    assert list(token.parent.iterdir()) == [token]


def test_a_token_is_long_and_its_owners_alone(tmp_path):
    keep_token(tmp_path / "token")
    assert len((tmp_path / "token").read_text().strip()) >= 32
    assert sys.platform == "win32" or stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600


def test_a_log_that_grew_too_long_gives_way_to_a_new_one(tmp_path):
    log = tmp_path / "daemon.log"
    for old in (b"first", b"second"):
        log.write_bytes(old + b" " * 5 * 1024 * 1024)
        process = start_detached([sys.executable, "-c", "print('begun anew')"], log)
        assert process.wait(SECONDS) == 0
        assert log.read_text() == "begun anew\n"
        assert log.with_suffix(".log.1").read_bytes().startswith(old)
    assert len(list(tmp_path.iterdir())) == 2
