"""What becomes of an error: never a traceback, always a sentence, for programs a problem."""

import copy
import json
import subprocess
import sys
import types

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from clients.answers import EVENT, FACT, problem
from memory_bridge import cli

UNFORESEEN = "This should not have happened"
ENDS = {
    "unauthorized": 5,
    "forbidden": 5,
    "unavailable": 6,
    "invalid_argument": 4,
    "busy": 7,
    "internal": 70,
}


class OfNobody(BaseException):
    """Derived from nothing that a handler would expect."""


ANY_CLASS = [
    RuntimeError("a\nb"),
    MemoryError(),
    RecursionError("too deep"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
    OverflowError("timeout is too large"),
    OSError(5, "Input/output error"),
    StopIteration(),
    GeneratorExit(),
    BaseExceptionGroup("several", [KeyboardInterrupt(), ValueError("one")]),
    OfNobody("\ud800\x1b[2J"),
]


def fails(environment, error):
    def fail(*_arguments):
        raise error

    environment.setattr("memory_bridge.memory.client_for", fail)


@pytest.mark.parametrize("error", ANY_CLASS, ids=lambda error: type(error).__name__)
def test_no_exception_of_any_class_leaves_as_a_traceback(error, environment, capsys):
    fails(environment, error)
    assert cli.main(["get", "k", "--json"]) == 70
    out, err = capsys.readouterr()
    told = json.loads(out)["problem"]
    assert (told["code"], told["retryable"]) == ("internal", False)
    assert err.count("\n") == 1
    assert err.startswith(f"memory-bridge: {UNFORESEEN} ({type(error).__name__}")
    assert "\x1b" not in err


@pytest.mark.parametrize("error", ANY_CLASS, ids=lambda error: type(error).__name__)
def test_neither_does_one_of_the_server(error, environment, capsys):
    def main(_words):
        raise error

    environment.setitem(sys.modules, "memory_gateway.main", types.SimpleNamespace(main=main))
    assert cli.main(["serve"]) == 70
    assert capsys.readouterr().err.startswith(f"memory-bridge: {UNFORESEEN}")


@pytest.mark.parametrize("way", ["option", "variable"])
def test_whoever_looks_for_the_cause_is_shown_it(way, environment, capsys):
    fails(environment, RuntimeError("a cause"))
    if way == "variable":
        environment.setenv("MCP_DEBUG", "1")
    assert cli.main(["get", "k", *(["--debug"] if way == "option" else [])]) == 70
    err = capsys.readouterr().err
    assert UNFORESEEN in err
    assert "Traceback" in err
    assert err.rstrip().endswith("RuntimeError: a cause")


@pytest.mark.parametrize(
    ("status", "code", "retryable"),
    [
        (401, "unauthorized", False),
        (403, "forbidden", False),
        (413, "invalid_argument", False),
        (429, "busy", True),
        (502, "unavailable", True),
        (500, "internal", False),
    ],
)
def test_a_refusal_of_the_door_is_a_problem_for_programs(peer, capsys, status, code, retryable):
    peer.answers["memory_get"] = lambda exchange: exchange.refuse(status, message="Why.")
    ended = cli.main(["get", "k", "--json", "--url", peer.url])
    out, err = capsys.readouterr()
    told = json.loads(out)["problem"]
    assert (told["code"], told["retryable"]) == (code, retryable)
    assert "Why." in told["message"]
    assert err == f"memory-bridge: {told['message']}\n"
    assert ended == ENDS[code]


@pytest.mark.parametrize(
    ("words", "code", "ended", "retryable"),
    [
        (["--url", "http://127.0.0.1:9"], "unavailable", 6, True),
        (["--url", "http://a..b"], "wrong_usage", 2, False),
        (["--url", "http://x", "--token-file", "/no/such"], "wrong_usage", 2, False),
        (["--db", "/dev/null/memory.db"], "unavailable", 6, False),
    ],
)
def test_a_server_that_cannot_be_had_is_a_problem_for_programs(
    words, code, ended, retryable, capsys
):
    assert cli.main(["set", "k", "v", "--json", *words]) == ended
    out, err = capsys.readouterr()
    told = json.loads(out)["problem"]
    assert (told["code"], told["retryable"]) == (code, retryable)
    assert told["message"] in err


@pytest.mark.parametrize("number", [-32700, -32600, -32602])
def test_a_message_that_the_server_cannot_read_is_an_argument_that_it_refuses(peer, number, capsys):
    peer.answers["memory_get"] = lambda exchange: exchange.refuse(400, code=number)
    assert cli.main(["get", "k", "--json", "--url", peer.url]) == 4
    assert json.loads(capsys.readouterr().out)["problem"]["code"] == "invalid_argument"


ANSWERS = {
    "get": {"found": True, "fact": FACT},
    "set": {"fact": FACT},
    "list": {"facts": [FACT], "next_cursor": None},
    "search": {"mode": "hybrid", "hits": [{"fact": FACT, "score": 0.5}], "degraded": None},
    "history": {"events": [EVENT], "next_cursor": None},
    "delete": {"removed": FACT},
    "stats": {"facts": 1, "backlog": {"pending": 0}},
}
WORDS = {"get": ["k"], "set": ["k", "v"], "search": ["q"], "delete": ["k"], "list": ["--all"]}
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


def paths(value, path=()):
    """Yields the way to every part of a JSON value, the whole first."""
    yield path
    if isinstance(value, (dict, list)):
        for name, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from paths(part, (*path, name))


def replaced(value, path, junk):
    if not path:
        return junk
    value = copy.copy(value)
    value[path[0]] = replaced(value[path[0]], path[1:], junk)
    return value


WHERE = [(name, path) for name, answer in ANSWERS.items() for path in paths(answer)]


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(where=st.sampled_from(WHERE), junk=JUNK)
@example(where=("search", ("hits", 0, "score")), junk="high")
@example(where=("list", ("facts",)), junk=None)
@example(where=("list", ("next_cursor",)), junk="again")
@example(where=("list", ("next_cursor",)), junk=float("nan"))
def test_a_server_that_answers_nonsense_is_told_of_or_shown_but_never_unforeseen(run, where, junk):
    name, path = where
    answer = replaced(ANSWERS[name], path, junk)
    code, _, err = run(name, *WORDS.get(name, []), answer=answer)
    assert code in (0, 1, 6)
    assert UNFORESEEN not in err


PROBLEM = {"problem": problem("conflict", current=FACT)}


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(path=st.sampled_from(list(paths(PROBLEM))), junk=JUNK, as_json=st.booleans())
@example(path=("problem", "code"), junk=["busy"], as_json=True)
def test_a_refusal_that_is_nonsense_is_still_a_refusal(peer, capsys, path, junk, as_json):
    structured = replaced(PROBLEM, path, junk)
    result = {"isError": True, "content": junk, "structuredContent": structured}
    peer.answers["memory_set"] = lambda exchange: exchange.result(result)
    code = cli.main(["set", "k", "v", "--url", peer.url, *(["--json"] if as_json else [])])
    out, err = capsys.readouterr()
    assert code in (3, 70)
    assert UNFORESEEN not in err
    if as_json:
        assert "problem" in json.loads(out)


@pytest.mark.parametrize("version", ["a\nb", "\u65e5\u672c", None, ["x"], 10**30])
def test_a_server_of_an_unheard_of_version_ends_in_six(peer, version, capsys):
    result = {"protocolVersion": version, "capabilities": {}}
    headers = {"Mcp-Session-Id": "s1"}
    peer.answers["initialize"] = lambda exchange: exchange.result(result, headers=headers)
    assert cli.main(["get", "k", "--url", peer.url]) == 6
    assert "unknown to this client" in capsys.readouterr().err


def redirected(peer, words, redirection):
    """Returns the exit code and stderr of the command with its streams as the shell sets them."""
    fact = {"content": [], "structuredContent": {"found": True, "fact": FACT}}
    peer.answers["memory_get"] = lambda exchange: exchange.result(fact)
    command = f'"$0" -m memory_bridge "$@" {redirection}'
    script = ["sh", "-c", command, sys.executable, "--url", peer.url, *words]
    done = subprocess.run(script, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("words", [["get", "k"], ["get", "k", "--json"], ["--help"]])
def test_a_full_disk_behind_stdout_is_told(peer, words, environment):
    environment.delenv("PYTHONUNBUFFERED", raising=False)
    code, _, err = redirected(peer, words, ">/dev/full")
    assert code == 74
    assert err == (
        "memory-bridge: The answer cannot be written to stdout: No space left on device. "
        "What was asked for is done.\n"
    )


def test_nothing_is_done_whose_answer_has_no_place(peer):
    code, _, err = redirected(peer, ["get", "k", "--json"], ">&-")
    assert code == 2
    assert err.startswith("memory-bridge: stdout is closed; ")
    assert err.count("\n") == 1
    assert not peer.requests


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full"])
@pytest.mark.parametrize(("words", "code"), [(["get", "k"], 0), (["set", "k", "-"], 2)])
def test_sentences_without_a_place_change_nothing(peer, redirection, words, code):
    ended, out, _ = redirected(peer, words, f"{redirection} <&-")
    assert (ended, out) == (code, "blue" if code == 0 else "")


def test_a_value_of_a_closed_stdin_is_wrong_usage(peer):
    code, _, err = redirected(peer, ["set", "k", "-"], "<&-")
    assert (code, err) == (2, "memory-bridge: stdin is closed, and - stands for what it holds.\n")
