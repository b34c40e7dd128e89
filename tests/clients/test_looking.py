"""inspect, tail, diff and undo, of a running server and of a file."""

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import psutil
import pytest

from clients.terminal import Terminal
from memory_bridge import cli, memory
from memory_bridge.client import Client
from memory_bridge.commands import undo
from memory_bridge.errors import ToolFailed
from waiting import wait_until

pytest.importorskip("memory_gateway.main", reason="needs the extra `server`")

from gateway_serving import SECONDS, TOKEN, environment, http_server

COMMAND = [sys.executable, "-m", "memory_bridge"]


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    return tmp_path_factory.mktemp("looking") / "memory.db"


@pytest.fixture(scope="module")
def served(database):
    with http_server(database) as server:
        yield server


@pytest.fixture
def where(served):
    return ["--url", served.url, "--token", TOKEN]


@pytest.fixture
def run(where, capfd):
    def run(*words, at=where):
        code = cli.main([*words, *at])
        return code, *capfd.readouterr()

    return run


@pytest.fixture
def mine(served):
    with Client.http(served.url, token=TOKEN) as client:
        yield memory.Memory(client, None, "tests")


@pytest.fixture
def key(request):
    """Each test has its own."""
    return request.node.name


@pytest.fixture
def held(mine, key):
    """Writes values, one after the other, under the key of the test."""

    def write(*values, **more):
        for value in values:
            mine.call("memory_set", {"key": key, "value": value, **more})

    return write


@pytest.fixture
def started(where):
    processes = []

    def start(*words, **more):
        process = subprocess.Popen(
            [*COMMAND, *words, *where],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
            text=True,
            encoding="utf-8",
            **more,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def test_diff_shows_what_changed_from_a_version_to_the_newest(run, held, key):
    held("one\ntwo\n", "one\n2\n", "one\nzwei\n")
    code, out, _ = run("diff", key, "1")
    assert code == 0
    first, second, *lines = out.splitlines()
    assert first.startswith(f"--- {key} version 1 by tests 20")
    assert second.startswith(f"+++ {key} version 3 by tests 20")
    assert lines == ["@@ -1,2 +1,2 @@", " one", "-two", "+zwei"]
    assert "-two\n+2\n" in run("diff", key, "1", "2")[1]


def test_a_diff_of_line_ends_shows_them_and_keeps_them(run, held, key):
    held("one\r\ntwo", "one\ntwo\n")
    out = json.loads(run("diff", key, "1", "--json")[1])["diff"]
    assert out.endswith("-one\r\n-two\n\\ No newline at end of file\n+one\n+two\n")


def test_a_diff_of_nothing_ends_in_one(run, held, key):
    held("same", "same")
    assert run("diff", key, "1", "2") == (1, "", "The texts are the same.\n")
    assert run("diff", key, "7")[::2] == (1, "There is no version 7 of it.\n")
    assert run("diff", "no-such-key", "1")[0] == 1


def test_undo_writes_what_was_there_before_with_its_tags_and_says_so(run, mine, held, key):
    held("grey", tags=["a"])
    held("blue", tags=["b"])
    code, out, _ = run("undo", key)
    assert code == 0
    assert "-blue\n+grey\n" in out
    assert out.endswith(f"{key} is at version 3 now. The same again takes it back.\n")
    fact = mine.call("memory_get", {"key": key})["fact"]
    assert (fact["value"], fact["tags"]) == ("grey", ["a"])


def test_undo_takes_back_itself_a_deletion_and_a_first_write(run, mine, held, key):
    def value():
        fact = mine.call("memory_get", {"key": key})["fact"]
        return fact and fact["value"]

    held("grey")
    assert (run("undo", key)[0], value()) == (0, None)
    assert (run("undo", key)[0], value()) == (0, "grey")
    held("blue")
    mine.call("memory_delete", {"key": key})
    assert (run("undo", key)[0], value()) == (0, "blue")


def test_a_dry_run_of_undo_changes_nothing(run, mine, held, key):
    held("grey", "blue")
    code, out, _ = run("undo", key, "--dry-run")
    assert (code, "-blue\n+grey\n" in out) == (0, True)
    assert mine.call("memory_get", {"key": key})["fact"]["version"] == 2


def test_undo_of_what_never_was_ends_in_one(run):
    code, out, err = run("undo", "never-written")
    assert (code, out) == (1, "")
    assert "nothing to undo" in err


@pytest.mark.parametrize("other", ["memory_set", "memory_delete"])
def test_undo_refuses_when_somebody_changes_the_fact_meanwhile(mine, held, key, other):
    held("grey", "blue")
    planned = undo._undoing(mine, key)
    mine.call(other, {"key": key} | ({"value": "red"} if other == "memory_set" else {}))
    with pytest.raises(ToolFailed) as refused:
        planned.apply(mine)
    assert refused.value.problem["code"] == "conflict"


def test_tail_shows_the_last_events_and_then_each_one_once(started, held, key):
    held("1", "2", "3")
    tail = started("tail", "--prefix", key, "--last", "2", "--count", "4", "--json")
    shown = [json.loads(tail.stdout.readline()) for _ in range(2)]
    held("4", "5")
    shown += map(json.loads, tail.communicate(timeout=SECONDS)[0].splitlines())
    assert [event["value_after"] for event in shown] == ["2", "3", "4", "5"]
    assert tail.returncode == 0


def test_tail_tells_only_what_is_wanted(run, mine, held, key):
    held("1", "2")
    mine.call("memory_get", {"key": key})
    mine.call("memory_delete", {"key": key})
    where = ["--prefix", key, "--count", "1", "--json"]
    for wanted, kind in (["--kind", "delete"], "delete"), (["--reads"], "set"):
        event = json.loads(run("tail", *where, *wanted)[1])
        assert event["kind"] == kind
    after = str(event["id"])
    assert json.loads(run("tail", *where, "--after", after)[1])["value_after"] == "2"
    assert (
        json.loads(run("tail", *where, "--client", "tests", "--last", "1")[1])["kind"] == "delete"
    )
    assert run("tail", "--kind", "no-such-kind")[0] == 4


def test_tail_writes_a_line_for_people(run, held, key):
    held("one\ntwo")
    _, out, _ = run("tail", "--prefix", key, "--count", "1")
    assert out.count("\n") == 1
    assert out.split()[2:] == ["tests*", "set", key, "1", "∅", "→", r"one\ntwo"]


def test_tail_ends_quietly_when_nobody_reads_it_any_more(started, held, key):
    held("1")
    tail = started("tail", "--prefix", key)
    assert tail.stdout.readline()
    tail.stdout.close()

    def has_ended():
        held("more")
        return tail.poll() is not None

    wait_until(has_ended, seconds=SECONDS)
    assert (tail.returncode, tail.stderr.read()) == (141, "")


@pytest.mark.parametrize("words", [["tail"], ["inspect", "--watch"], ["hammer", "struck"]])
def test_an_interrupt_ends_it_without_a_traceback(started, held, words):
    held("1")
    process = started(*words)
    assert process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert "Traceback" not in err


def test_the_overview_has_counts_namespaces_and_the_last_changes(run, held, key):
    held("grey", "blue")
    code, out, _ = run("inspect", "--limit", "1")
    assert code == 0
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "engine sqlite" in lines
    assert "NAMESPACE FACTS" in lines
    assert lines[-1].endswith(f"tests* set {key} 2 grey → blue")


def test_inspect_shows_who_read_a_key_and_who_searched(run, mine, held, key):
    held("grey")
    mine.call("memory_get", {"key": key})
    mine.call("memory_search", {"query": f"grey {key}"})

    def kinds():
        events = json.loads(run("inspect", "--key", key, "--json")[1])["events"]
        return [event["kind"] for event in events]

    wait_until(lambda: kinds() == ["get", "set"], seconds=SECONDS)
    wait_until(lambda: f"grey {key}" in run("inspect", "--searches")[1], seconds=SECONDS)
    assert run("inspect", "--key", "never")[0] == 1


def test_watching_shows_the_view_again_after_each_change(started, held, key):
    held("1")
    watch = started("inspect", "--watch", "--key", key, "--json")
    assert len(json.loads(watch.stdout.readline())["events"]) == 1
    held("2")
    assert len(json.loads(watch.stdout.readline())["events"]) == 2


@pytest.mark.parametrize(("kind", "clears"), [("xterm", True), ("dumb", False)])
def test_only_a_terminal_that_can_be_cleared_is(where, held, key, kind, clears):
    held("once")
    command = [*COMMAND, "inspect", "--watch", "--key", key, *where]
    with Terminal(command, environment(TERM=kind)) as terminal:
        terminal.wait_for("once")
        held("twice")
        terminal.wait_for("twice")
    assert (terminal.shown.count(b"\x1b[H\x1b[2J") == 2) is clears
    assert (b"\x1b" in terminal.shown) is clears


def test_a_latin_1_terminal_shows_what_it_lacks_as_escapes(where, held, key):
    held("Zoë", "日本")
    command = [*COMMAND, "diff", key, "1", *where]
    with Terminal(command, environment(PYTHONIOENCODING="latin-1")) as terminal:
        assert terminal.end() == 0
    assert b"-Zo\xeb\r\n" in terminal.shown
    assert rb"+\u65e5\u672c" in terminal.shown


def test_a_terminal_cannot_be_driven_by_what_is_shown(where, held, key):
    held("safe", "\x1b[2J\r\u202e")
    for words in (["diff", key, "1"], ["tail", "--prefix", key, "--count", "2"]):
        with Terminal([*COMMAND, *words, *where], environment()) as terminal:
            assert terminal.end() == 0
        assert b"\x1b[2J" not in terminal.shown
        assert rb"\x1b[2J" in terminal.shown


def test_a_file_is_looked_at_by_a_server_that_ends_with_the_command(run, held, key, database):
    held("grey")
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    at = ["--db", str(database)]
    assert key in run("inspect", "--key", key, at=at)[1] + run("inspect", at=at)[1]
    assert f"{key} " in run("tail", "--prefix", key, "--count", "1", at=at)[1]
    assert {child.pid for child in psutil.Process().children(recursive=True)} == before


def test_a_file_that_is_not_there_is_not_made(run, tmp_path):
    file = tmp_path / "mistyped.db"
    for words in (["inspect"], ["tail"], ["diff", "k", "1"], ["undo", "k"]):
        code, _, err = run(*words, at=["--db", str(file)])
        assert (code, err.startswith("memory-bridge: There is no database")) == (2, True)
    assert not file.exists()


def test_the_server_of_a_command_that_is_killed_ends_too(database, served, held, key):  # noqa: ARG001  the server makes the database
    held("grey")
    tail = subprocess.Popen(
        [*COMMAND, "tail", "--prefix", key, "--db", str(database)],
        stdout=subprocess.PIPE,
        env=environment(),
    )
    assert tail.stdout.readline()
    (server,) = psutil.Process(tail.pid).children()
    os.kill(tail.pid, signal.SIGKILL)
    tail.communicate(timeout=SECONDS)
    wait_until(lambda: not server.is_running() or server.status() == "zombie", seconds=SECONDS)


def test_a_server_that_cannot_be_had_ends_in_six_and_a_wrong_token_in_five(run, served):
    assert run("tail", at=["--url", "http://127.0.0.1:9"])[0] == 6
    assert run("inspect", at=["--url", served.url, "--token", "x" * 20])[0] == 5
    assert run("tail", at=["--url", served.url, "--token", "x" * 20])[0] == 5


@pytest.mark.parametrize("words", [["tail"], ["inspect"], ["inspect", "--watch"]])
def test_what_is_no_memory_ends_in_six(run, words):
    with page() as url:
        code, _, err = run(*words, at=["--url", url])
    assert (code, err.count("\n")) == (6, 1)


@contextmanager
def page():
    """A server of something else."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class Page(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<p>Welcome.")

    def log_message(self, *_arguments):
        pass
