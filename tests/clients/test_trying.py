"""hammer, stress and lock-demo, and tail through a restart of the server."""

import json
import re
import signal
import subprocess
import sys
from itertools import pairwise

import psutil
import pytest

from clients.restarting_gateway import RestartingGateway
from gateway_serving import environment
from memory_bridge import cli, latencies
from memory_bridge.client import Client
from memory_bridge.race import Race
from memory_bridge.unified import unified
from waiting import wait_until

COMMAND = [sys.executable, "-m", "memory_bridge"]
SECONDS = 60


@pytest.fixture
def gateway(tmp_path):
    pytest.importorskip("memory_gateway.main", reason="needs the extra `server`")
    with RestartingGateway(tmp_path).running() as gateway:
        yield gateway


def where(gateway):
    return ["--url", gateway.url, "--token-file", str(gateway.token_file)]


def told(capfd, *words):
    code = cli.main(list(words))
    return code, *capfd.readouterr()


def write(gateway, *values):
    with Client.http(gateway.url, token=gateway.token_file.read_text()) as client:
        for value in values:
            client.call_tool("memory_set", {"key": "k", "value": value})


def test_tail_goes_on_after_a_restart_where_it_was(gateway):
    write(gateway, "1")
    command = [*COMMAND, "tail", "--json", "--count", "4", *where(gateway)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as tail:
        shown = [json.loads(tail.stdout.readline())]
        write(gateway, "2")
        shown.append(json.loads(tail.stdout.readline()))
        gateway.kill()
        assert "It goes on after event" in tail.stderr.readline()
        gateway.start()
        write(gateway, "3", "4")
        out, err = tail.communicate(timeout=SECONDS)
    shown += map(json.loads, out.splitlines())
    assert [event["value_after"] for event in shown] == ["1", "2", "3", "4"]
    assert (tail.returncode, err) == (0, "")


def test_two_hammers_tell_who_overwrote_whom(gateway):
    def hammer(name):
        words = ["hammer", "k", "--every", "20ms", "--count", "15", "--client-id", name]
        return subprocess.Popen(
            [*COMMAND, *words, *where(gateway), "--json"], stdout=subprocess.PIPE, text=True
        )

    write(gateway, "before")
    hammers = [hammer("left"), hammer("right")]
    lines = [each.communicate(timeout=SECONDS)[0].splitlines() for each in hammers]
    assert [each.returncode for each in hammers] == [0, 0]
    for name, seen in zip(("left", "right"), lines, strict=True):
        rows = [json.loads(line) for line in seen]
        versions = [row["event"]["version"] for row in rows]
        assert versions == list(range(versions[0], versions[0] + len(versions)))
        assert [row["event"]["source_client"] for row in rows].count(name) == 15
        for earlier, later in pairwise(rows):
            assert later["overwritten"]["client"] == earlier["event"]["source_client"]
            assert later["overwritten"]["lived_ms"] >= 0


def test_a_hammer_sums_up_what_it_saw(gateway, capfd):
    write(gateway, "before")
    words = ["hammer", "k", "--every", "0", "--count", "3", "--client-id", "me"]
    code, out, _ = told(capfd, *words, *where(gateway))
    assert code == 0
    first, second, third, empty, head, *summary = out.splitlines()
    assert re.search(r"me  +2  +me 1, over memory-bridge's 1, which lived \d+ ms$", first)
    assert re.search(r"me  +4  +me 3, over me's 3, which lived \d+ ms$", third)
    assert (second.split()[3:5], empty, head.split()[:2]) == (["me", "2,"], "", ["WHO", "WRITES"])
    assert [row.split()[:3] for row in summary] == [["me", "3", "0"], ["memory-bridge", "0", "1"]]


@pytest.mark.parametrize("every", ["fast", "-1s", "2h", "9999999s", ""])
def test_an_interval_that_is_none_is_wrong_usage(every):
    with pytest.raises(SystemExit) as ended:
        cli.main(["hammer", "k", f"--every={every}"])
    assert ended.value.code == 2


def test_no_update_is_lost_with_compare_and_set(gateway, capfd):
    words = ["stress", "--clients", "4", "--writes", "25", "--json"]
    code, out, _ = told(capfd, *words, *where(gateway))
    answer = json.loads(out)
    assert code == 0
    cas, blind = answer["cas"], answer["blind"]
    assert (cas["written"], cas["lost_updates"], cas["errors"]) == (100, 0, {})
    assert cas["refused"] > 0
    assert (blind["written"], blind["refused"], blind["errors"]) == (100, 0, {})
    assert blind["lost_updates"] > 0
    assert cas["milliseconds"]["p50"] <= cas["milliseconds"]["p100"]
    assert sum(count for _, count in cas["histogram"]) == cas["written"] + cas["refused"]
    left = told(capfd, "list", "--namespace", "stress", *where(gateway))
    assert left[0] == 1


def test_stress_comes_later_where_a_server_asks_for_that(tmp_path, capfd):
    pytest.importorskip("memory_gateway.main", reason="needs the extra `server`")
    bounds = {"MCP_RATE_PER_SECOND": "40", "MCP_RATE_BURST": "30"}
    words = ["stress", "--clients", "2", "--writes", "20", "--mode", "cas", "--json"]
    with RestartingGateway(tmp_path, **bounds).running() as gateway:
        code, out, _ = told(capfd, *words, *where(gateway))
    cas = json.loads(out)["cas"]
    assert code == 0
    assert (cas["written"], cas["errors"], cas["lost_updates"]) == (40, {}, 0)
    assert cas["deferred"] > 0


def test_stress_needs_no_server_and_leaves_nothing(capfd, tmp_path, monkeypatch):
    pytest.importorskip("memory_gateway.main", reason="needs the extra `server`")
    monkeypatch.setenv("MCP_URL", "http://127.0.0.1:9")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    words = ["stress", "--clients", "2", "--writes", "5", "--keys", "2", "--mode", "cas"]
    code, out, _ = told(capfd, *words)
    assert code == 0
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[0] == "2 clients, 5 writes each, 2 key(s)"
    assert "lost updates 0" in lines
    assert any(line.endswith("#") for line in lines)
    assert list(tmp_path.iterdir()) == []
    assert {child.pid for child in psutil.Process().children(recursive=True)} == before


def test_a_place_that_refuses_ends_stress_as_it_ends_any_command(gateway, capfd):
    words = ["stress", "--clients", "1", "--writes", "2", "--namespace", "x" * 1000, "--json"]
    code, out, _ = told(capfd, *words, *where(gateway))
    assert (code, json.loads(out)["problem"]["code"]) == (4, "invalid_argument")


def test_the_demonstration_of_the_lock_is_what_was_promised(capfd):
    pytest.importorskip("memory_gateway.main", reason="needs the extra `server`")
    code, out, _ = told(capfd, "lock-demo", "--hold", "3s", "--json")
    hasty, patient = json.loads(out)["attempts"]
    assert code == 0
    assert hasty["problem"]["code"] == "busy"
    assert (hasty["trail"], hasty["busy_timeout_ms"]) == ([], 0)
    assert patient["problem"] is None
    assert patient["milliseconds"] > hasty["milliseconds"]
    (event,) = patient["trail"]
    assert (event["source_client"], event["value_after"]) == ("client-b", "5432")


def test_percentiles_are_of_the_nearest_rank():
    assert latencies.percentiles([]) == {}
    assert latencies.percentiles([7.0]) == {"p50": 7, "p90": 7, "p99": 7, "p100": 7}
    spread = latencies.percentiles([float(number) for number in range(100, 0, -1)])
    assert spread == {"p50": 50, "p90": 90, "p99": 99, "p100": 100}


def test_a_histogram_has_every_call_and_no_empty_ends():
    rows = latencies.histogram([1.5] * 10 + [4.0] * 5 + [30.0, 99_999.0])
    assert [(name, count) for name, count, _ in rows][:2] == [("to 2 ms", 10), ("to 5 ms", 5)]
    assert rows[-1] == ("over 10000 ms", 1, "#" * 5)
    assert rows[0][2] == "#" * 50
    assert sum(count for _, count, _ in rows) == 17
    assert latencies.histogram([]) == []


def test_a_race_counts_writes_and_lives():
    def event(client, version, at):
        return {"source_client": client, "version": version, "at": f"2026-01-31T12:00:0{at}Z"}

    race = Race()
    race.begin(event("a", 1, "0.000"))
    overwritten = race.add(event("b", 2, "0.250"))
    assert overwritten.as_json() == {"client": "a", "version": 1, "lived_ms": 250}
    race.add(event("b", 3, "1.000"))
    assert race.summary() == [("a", 0, 1, "250, 250, 250"), ("b", 2, 0, "750, 750, 750")]


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ("a", "a", []),
        ("a", "b", ["-a", "+b"]),
        ("", "b", ["+b", r"\ No newline at end of file"]),
        ("a\n", "a", ["-a", "+a", r"\ No newline at end of file"]),
        ("a\u2028b\rc", "a\u2028b\rd", ["-a\u2028b\rc", "+a\u2028b\rd"]),
    ],
)
def test_a_unified_diff_breaks_lines_where_an_editor_does(before, after, lines):
    assert unified(before, after, ("x", "y")).split("\n")[3:-1] == lines


@pytest.mark.parametrize(
    "words", [["stress", "--writes", "100000"], ["lock-demo", "--hold", "30s"]]
)
def test_an_interrupt_leaves_neither_servers_nor_files(words, tmp_path):
    pytest.importorskip("memory_gateway.main", reason="needs the extra `server`")
    command = [*COMMAND, *words]
    with subprocess.Popen(
        command, env=environment(TMPDIR=str(tmp_path)), stderr=subprocess.PIPE, text=True
    ) as process:
        wait_until(lambda: any(tmp_path.rglob("*.db")), seconds=SECONDS)
        servers = psutil.Process(process.pid).children()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert servers
    _, alive = psutil.wait_procs(servers, SECONDS)
    assert alive == []
    assert list(tmp_path.iterdir()) == []
