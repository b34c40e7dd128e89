"""The stub as a process: its start, its end, its size, and the server that it may start."""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from clients.stub_process import SECONDS, Stub, stub
from memory_bridge.filelock import FileLock
from ports import free_port
from waiting import wait_until

LIMIT_SECONDS = 0.15
LIMIT_BYTES = 30 * 1024 * 1024
HEADROOM = 4
NOWHERE = "http://127.0.0.1:9"
SERVER = Path(__file__).with_name("waking_server.py")


@pytest.fixture
def host(peer):
    with stub("--url", peer.url) as host:
        host.initialize()
        yield host


def test_it_starts_at_once(peer):
    took = []
    for _ in range(3):
        with stub("--url", peer.url) as host:
            host.initialize()
            # What it computes, for how long it is kept waiting says more about the machine.
            times = psutil.Process(host.process.pid).cpu_times()
            took.append(times.user + times.system)
    assert min(took) < LIMIT_SECONDS * HEADROOM


@pytest.mark.skipif(sys.platform != "linux", reason="memory is counted otherwise elsewhere")
def test_it_stays_small(host):
    for number in range(200):
        host.call(number, "memory_get", value="x" * 1000)
    for _ in range(200):
        host.heard()
    assert psutil.Process(host.process.pid).memory_info().rss < LIMIT_BYTES


def test_it_imports_nothing_that_is_slow_before_it_is_needed():
    slow = ["asyncio", "logging", "subprocess", "urllib.request", "secrets", "shlex"]
    script = "import sys, memory_bridge.stub.serving, memory_bridge.commands.stdio\n"
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"{script}print([n for n in {slow!r} if n in sys.modules])"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"


def test_it_ends_with_its_input(host):
    assert host.end_input() == 0
    assert b"".join(host.errors) == b""


def test_what_was_asked_before_the_end_of_the_input_is_answered(host):
    for number in range(20):
        host.call(number, "memory_set", key="a", value=str(number))
    assert host.end_input() == 0
    wait_until(lambda: len(host.said) == 21)


def test_ending_ends_the_session(peer, host):
    host.end_input()
    assert [h["Mcp-Session-Id"] for kind, h, _ in peer.requests if kind == "DELETE"] == ["s1"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it(host, number):
    host.process.send_signal(number)
    assert host.process.wait(SECONDS) == 0
    assert b"".join(host.errors) == b""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_while_calls_wait(number):
    with stub("--url", NOWHERE) as host:
        host.call(1, "memory_set", key="a", value="b")
        host.request("p", "ping")
        host.heard()
        host.process.send_signal(number)
        assert host.process.wait(SECONDS) == 0


def test_it_ends_when_the_host_does_not_read_any_more():
    read, write = os.pipe()
    command = [sys.executable, "-P", "-m", "memory_bridge", "stdio", "--url", NOWHERE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=write) as process:
        os.close(write)
        os.close(read)
        process.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        process.stdin.flush()
        assert process.wait(SECONDS) == 0


def test_it_ends_when_its_host_is_killed(peer):
    script = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    command = [sys.executable, "-m", "memory_bridge", "stdio", "--url", peer.url]
    host = subprocess.Popen([sys.executable, "-c", script, *command], stdout=subprocess.PIPE)
    with host:
        child = psutil.Process(int(host.stdout.readline()))
        host.kill()
        child.wait(SECONDS)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "--url"),
        (["--url", "ftp://x"], "http://"),
        (["--url", NOWHERE, "--token-file", "/nowhere/token"], "cannot be read"),
        (["--url", NOWHERE, "--db", "x.db"], "--db"),
        (["--url", NOWHERE, "--queue", "0"], "from 1 to"),
        (["--url", NOWHERE, "--wake", ""], "empty"),
    ],
)
def test_what_cannot_be_meant_is_told_on_stderr_alone(words, said):
    with stub(*words) as host:
        assert host.process.wait(SECONDS) == 2
        wait_until(lambda: said.encode() in b"".join(host.errors))
        assert host.said == []


class Waking:
    """Stubs that may start one server, and the file in which it notes its starts."""

    def __init__(self, folder):
        self.folder = folder
        self.port = free_port()
        self.starts_file = folder / "starts"
        self.lock = folder / f"wake-127.0.0.1-{self.port}.lock"
        self._stubs = []

    def stub(self, command=None):
        command = command or [sys.executable, str(SERVER), str(self.port), str(self.starts_file)]
        url = f"http://127.0.0.1:{self.port}"
        words = ["stdio", "--url", url, "--wake", shlex.join(command)]
        started = Stub(
            [sys.executable, "-P", "-m", "memory_bridge", *words],
            MCP_MEMORY_STORE_DIR=str(self.folder),
        )
        self._stubs.append(started)
        return started

    @property
    def starts(self):
        return self.starts_file.read_text().count("\n") if self.starts_file.exists() else 0

    def close(self):
        for started in self._stubs:
            started.process.kill()
            started.process.wait()
        for process in psutil.process_iter(["cmdline"]):
            if str(self.starts_file) in (process.info["cmdline"] or []):
                process.kill()


@pytest.fixture
def waking(tmp_path):
    waking = Waking(tmp_path)
    yield waking
    waking.close()


def test_of_stubs_that_wake_a_server_at_once_one_does(waking):
    hosts = [waking.stub() for _ in range(4)]
    for host in hosts:
        assert host.initialize()["id"] == 0
        host.call(1, "memory_get", key="a")
        assert host.heard()["id"] == 1
    assert waking.starts == 1


def test_a_server_that_was_woken_outlives_the_stub(waking):
    host = waking.stub()
    host.initialize()
    assert host.end_input() == 0
    other = waking.stub()
    other.initialize()
    assert waking.starts == 1


def test_a_starter_that_died_is_in_nobodys_way(waking):
    starter = waking.stub([sys.executable, "-c", "import time; time.sleep(60)"])
    starter.say({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    wait_until(lambda: waking.lock.exists() and _is_held(waking.lock))
    starter.process.kill()

    waking.stub().initialize()

    assert waking.starts == 1


def _is_held(path):
    lock = FileLock.take(path)
    if lock is not None:
        lock.release()
    return lock is None


def test_a_command_that_fails_is_told_with_the_place_of_its_words(waking):
    host = waking.stub([sys.executable, "-c", "import sys; sys.exit('no such model')"])
    host.say({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    log = waking.folder / "wake.log"
    wait_until(lambda: str(log).encode() in b"".join(host.errors))
    assert "no such model" in log.read_text()


def test_a_command_that_is_not_there_is_told(waking):
    host = waking.stub([str(waking.folder / "nothing")])
    host.say({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    wait_until(lambda: b"cannot be started" in b"".join(host.errors))


def test_a_server_that_answers_is_not_started(peer, tmp_path):
    wake = shlex.join([sys.executable, "-c", f"open({str(tmp_path / 'woken')!r}, 'w')"])
    with stub("--url", peer.url, "--wake", wake) as host:
        host.initialize()
        host.call(1, "memory_get", key="a")
        host.heard()
    assert not os.path.lexists(tmp_path / "woken")
