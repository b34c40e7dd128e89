"""How the command line ends: the exit codes, and what becomes of its pipes."""

import json
import os
import signal
import subprocess
import sys

import pytest

from clients.answers import FACT, problem
from memory_bridge import cli
from waiting import wait_until


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("not_found", 1),
        ("conflict", 3),
        ("idempotency_mismatch", 3),
        ("invalid_argument", 4),
        ("unauthorized", 5),
        ("unavailable", 6),
        ("busy", 7),
        ("internal", 70),
        ("unheard_of", 70),
    ],
)
def test_each_refusal_of_a_tool_has_its_exit_code(run, name, code):
    assert run("delete", "sky", problem=problem(name)) == (code, "", "memory-bridge: A sentence.\n")


def test_a_refusal_is_json_for_programs_and_the_current_value_for_people(run):
    refused = problem("conflict", current=FACT)
    assert "The value now: blue" in run("set", "sky", "x", problem=refused)[2]
    code, out, err = run("set", "sky", "x", "--json", problem=refused)
    assert (code, json.loads(out)) == (3, {"problem": refused})
    assert err == "memory-bridge: A sentence.\n"


@pytest.mark.parametrize(
    ("status", "code"),
    [(401, 5), (403, 5), (413, 4), (429, 7), (503, 7), (502, 6), (500, 70), (599, 70)],
)
def test_each_refusal_of_the_door_has_its_exit_code(peer, status, code, capsys):
    peer.answers["memory_stats"] = lambda exchange: exchange.refuse(status, message="Why.")
    assert cli.main(["stats", "--url", peer.url]) == code
    assert "Why." in capsys.readouterr().err


def test_a_slow_server_ends_in_six(peer, capsys):
    peer.answers["memory_stats"] = lambda _: peer.closing.wait()
    assert cli.main(["stats", "--url", peer.url, "--timeout", "0.3"]) == 6
    assert "0.3 seconds" in capsys.readouterr().err


@pytest.mark.parametrize(("number", "code"), [(-32602, 4), (-32603, 70)])
def test_an_error_of_the_protocol_has_its_exit_code(peer, number, code):
    peer.answers["memory_stats"] = lambda exchange: exchange.refuse(200, code=number)
    assert cli.main(["stats", "--url", peer.url]) == code


def test_an_answer_without_structure_is_a_sentence(run):
    code, _, err = run("get", "sky", answer=None)
    assert (code, err) == (6, "memory-bridge: memory_get answered without structured content.\n")


def test_an_answer_of_another_form_is_a_sentence(run):
    code, _, err = run("get", "sky", answer={"something": "else"})
    assert code == 6
    assert err == "memory-bridge: memory_get answered in a form that is unknown here.\n"


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["unheard-of"],
        ["get"],
        ["--json", "serve"],
        ["get", "\udcff"],
        ["set", "k", "v", "--metadata", "[1]"],
        ["set", "k", "v", "--metadata", '{"n": NaN}'],
        ["set", "k", "v", "--ttl", "inf"],
        ["set", "k", "v", "--absent", "--expect-version", "1"],
        ["restore", "k", "first"],
        ["stats", "--timeout", "0"],
        ["stats", "--db", ""],
        ["stats", "--url", ""],
    ],
)
def test_wrong_usage_ends_in_two(words, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    assert ended.value.code == 2
    assert "usage: memory-bridge" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["--url", "http://x", "--db", "x"],
        ["--db", "~nobody-has-this-name/x"],
        ["--url", "ftp://x"],
        ["--url", "http://x", "--token", "a", "--token-file", "b"],
        ["--url", "http://x", "--token-file", "/no/such/file"],
        ["--url", "http://x", "--token", "two words"],
        ["--url", "http://x", "--token-file", os.devnull],
    ],
)
def test_a_way_that_cannot_be_taken_ends_in_two(words, capsys):
    assert cli.main(["stats", *words]) == 2
    assert capsys.readouterr().err.startswith("memory-bridge: ")


@pytest.mark.parametrize("words", [["list"], ["daemon", "status"], ["token", "list"]])
def test_a_misspelled_setting_is_told_by_every_command(words, environment, tmp_path, capsys):
    environment.setenv("MCP_MEMORY_STORE_DIR", str(tmp_path))
    environment.setenv("MCP_EMBEDING", "off")
    environment.setenv("MCP_SERVER_OF_ANOTHER_PROGRAM", "x")
    cli.main(words)
    err = capsys.readouterr().err
    told = "MCP_EMBEDING is not a setting and has no effect. Did you mean MCP_EMBEDDINGS?\n"
    assert err.startswith(told)
    assert "ANOTHER" not in err


def test_it_is_not_told_while_a_shell_completes_words(environment, capsys):
    environment.setenv("MCP_EMBEDING", "off")
    assert cli.main(["completion", "bash"]) == 0
    assert capsys.readouterr().err == ""


def piped(peer, *words, **options):
    command = [sys.executable, "-m", "memory_bridge", "--url", peer.url, *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def test_a_pipe_gets_the_exact_bytes_whatever_the_locale(peer, environment):
    fact = {**FACT, "value": "é\r\n😀\x1b"}
    answer = {"content": [], "structuredContent": {"found": True, "fact": fact}}
    peer.answers["memory_get"] = lambda exchange: exchange.result(answer)
    environment.setenv("PYTHONIOENCODING", "ascii")
    with piped(peer, "get", "sky") as process:
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, fact["value"].encode(), b"")


def test_a_reader_that_has_gone_is_no_noise(peer):
    facts = [{**FACT, "value": "x" * 1000}] * 1000
    answer = {"content": [], "structuredContent": {"facts": facts, "next_cursor": None}}
    peer.answers["memory_list"] = lambda exchange: exchange.result(answer)
    with piped(peer, "list") as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_an_interrupt_ends_in_130_and_the_server_is_told(peer):
    peer.answers["memory_stats"] = lambda _: peer.closing.wait()
    with piped(peer, "stats") as process:
        wait_until(lambda: peer.sent("tools/call"))
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == b""
    assert process.returncode == 130
    assert peer.sent("notifications/cancelled")
