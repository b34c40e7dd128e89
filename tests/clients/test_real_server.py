"""The command line and the raw client against the server that is shipped with them."""

import io
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from memory_bridge import cli
from memory_bridge.client import Client, ToolFailed, Unauthorized

pytest.importorskip("memory_gateway.main", reason="needs the extra `server`")

TOKEN = "t0ken-of-the-installation-0123456789"
TEXTS = ["", "plain", "é\n\r\t\u2028😀", "e\u0301 \ufeff", "-5", "'; DROP TABLE", "日本語" * 2000]


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    settings = {
        "MCP_EMBEDDINGS": "off",
        "MCP_AUTH_TOKEN": TOKEN,
        "MCP_HTTP_PORT": "0",
        "MCP_MEMORY_DB": str(tmp_path_factory.mktemp("memory") / "memory.db"),
    }
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MCP_")}
    return {**kept, **settings}


@pytest.fixture(scope="module")
def url(environment):
    command = [sys.executable, "-m", "memory_bridge", "serve", "--http"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as server:
        lines = iter(server.stderr.readline, "")
        yield next(line.split()[-1] for line in lines if line.startswith("listening on "))
        server.terminate()


@pytest.fixture
def run(url, capsys, monkeypatch):
    monkeypatch.setenv("MCP_URL", url)
    monkeypatch.setenv("MCP_AUTH_TOKEN", TOKEN)
    monkeypatch.delenv("MCP_CLIENT_ID", raising=False)

    def run(*words):
        code = cli.main(list(words))
        return code, *capsys.readouterr()

    return run


@pytest.fixture(params=["stdio", "http"])
def over(request, url, environment):
    """Makes clients of the one memory, over stdio each with a server of its own."""

    def over(**options):
        if request.param == "http":
            return Client.http(url, token=TOKEN, **options)
        command = [sys.executable, "-P", "-m", "memory_bridge", "serve"]
        return Client.stdio(command, environment=environment, **options)

    return over


@pytest.mark.parametrize("text", TEXTS)
def test_any_text_is_kept_as_it_was_given(run, text):
    assert run("set", "text", "--", text)[0] == 0
    assert run("get", "text") == (0, text, "")


def test_a_fact_lives_through_all_commands(run):
    run("set", "life/sky", "grey", "--tag", "weather", "--client-id", "first")
    run("set", "life/sky", "blue", "--expect-version", "1", "--client-id", "second")
    assert run("set", "life/sky", "red", "--absent")[0] == 3
    assert run("get", "life/sky", "--at", "1")[1] == "grey"
    assert "blue" in run("list", "--tag", "weather", "--prefix", "life/")[1]
    assert "life/sky" in run("search", "blue", "--mode", "lexical")[1]
    assert run("delete", "life/sky")[0] == 0
    assert run("delete", "life/sky")[0] == 1
    assert run("restore", "life/sky", "1")[0] == 0
    assert run("get", "life/sky")[1] == "grey"


def test_history_names_who_did_what(run):
    run("set", "past", "a", "--client-id", "first")
    run("set", "past", "b", "--client-id", "second")
    run("set", "past", "c", "--expect-value", "a", "--client-id", "third")
    events = json.loads(run("history", "past", "--json")[1])["events"]
    told = [(event["kind"], event["source_client"], event["value_after"]) for event in events]
    assert told == [("conflict", "third", "c"), ("set", "second", "b"), ("set", "first", "a")]
    rows = [" ".join(line.split()[2:]) for line in run("history", "past")[1].splitlines()[1:]]
    assert rows[1] == "second* set 2 a → b"


def test_namespaces_are_separate(run):
    run("set", "apart", "here", "--namespace", "one")
    assert run("get", "apart", "--namespace", "one")[1] == "here"
    assert run("get", "apart", "--namespace", "two")[0] == 1


def test_every_page_of_a_list_is_followed(run):
    for number in range(5):
        run("set", f"page/{number}", "x")
    pages = run("list", "--prefix", "page/", "--limit", "2", "--all", "--json")[1]
    keys = [fact["key"] for fact in json.loads(pages)["facts"]]
    assert keys == [f"page/{number}" for number in range(5)]


def test_a_write_that_is_repeated_with_its_key_is_applied_once(run):
    words = ["set", "once", "x", "--idempotency-key", "k1"]
    assert run(*words) == run(*words)
    assert run("set", "once", "y", "--idempotency-key", "k1")[0] == 3


@pytest.mark.parametrize(
    "words",
    [
        ["set", "", "x"],
        ["set", "k" * 257, "x"],
        ["set", "k", "x" * 16385],
        ["search", "x", "--top-k", "0"],
        ["search", "x", "--mode", "psychic"],
        ["list", "--cursor", "broken"],
        ["get", "k", "--at", "yesterday"],
    ],
)
def test_what_the_server_refuses_ends_in_four_with_its_sentence(run, words):
    code, out, err = run(*words)
    assert (code, out) == (4, "")
    assert err.startswith("memory-bridge: ")


@pytest.mark.parametrize("own", [False, True], ids=["http", "stdio"])
@pytest.mark.parametrize("size", [1_000_000, 10_000_000])
def test_a_value_of_any_size_on_stdin_is_refused_with_four(run, monkeypatch, tmp_path, own, size):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"x" * size)))
    code, _, err = run("set", "k", "-", *(["--db", str(tmp_path / "own.db")] if own else []))
    assert (code, err.count("memory-bridge: ")) == (4, 1)


def test_a_wrong_token_ends_in_five(run):
    code, out, _ = run("stats", "--token", "wrong", "--json")
    assert (code, json.loads(out)["problem"]["code"]) == (5, "unauthorized")


def test_a_file_is_made_by_the_first_write_and_served_by_a_process_of_the_commands_own(
    run, tmp_path
):
    file = str(tmp_path / "own.db")
    code, _, err = run("set", "mine", "x", "--db", file)
    assert (code, err) == (0, f"Created the database {file}.\n")
    assert run("get", "mine", "--db", file) == (0, "x", "")
    assert run("get", "mine")[0] == 1


def test_without_an_address_the_default_memory_is_asked(run, environment, monkeypatch):
    run("set", "shared", "x")
    monkeypatch.delenv("MCP_URL")
    monkeypatch.setenv("MCP_MEMORY_DB", environment["MCP_MEMORY_DB"])
    assert run("get", "shared")[1] == "x"


def test_a_file_that_cannot_be_served_ends_in_six_with_the_servers_sentence_alone(run, tmp_path):
    text = tmp_path / "text.db"
    text.write_text("no database at all, but long enough to be looked at\n" * 99)
    for path, reason in ((text, "is not a SQLite database"), (tmp_path, "is a folder")):
        code, out, err = run("stats", "--db", str(path))
        assert (code, out) == (6, "")
        assert err.startswith(f"memory-bridge: The memory in {path} cannot be opened: ")
        assert reason in err
        assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "value"), [("MCP_TOOLSETS", "nope"), ("MCP_DATABASE_URL", "mysql://x")]
)
@pytest.mark.parametrize("words", [["serve"], ["list", "--json"], ["tail", "--json"]])
def test_a_bad_setting_ends_in_two_wherever_it_is_read(name, value, words):
    done = alone(*words, **{name: value})
    assert done.returncode == 2
    assert done.stderr.startswith(f"memory-bridge: {name} must be ")
    if "--json" in words:
        assert json.loads(done.stdout)["problem"]["code"] == "wrong_usage"


def test_the_first_search_of_a_process_waits_for_its_model(tmp_path):
    file = str(tmp_path / "own.db")
    alone("set", "sky", "blue", "--db", file)
    done = alone("search", "colour", "--db", file, "--json")
    assert "loading" not in (json.loads(done.stdout).get("degraded") or "")


def alone(*words, **settings):
    """A command without a server that runs."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MCP_")}
    return subprocess.run(
        [sys.executable, "-m", "memory_bridge", *words],
        env={**kept, **settings},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("era", ["handshake", "modern"])
def test_twenty_writes_in_flight_are_all_kept(over, era):
    with over(era=era) as client, ThreadPoolExecutor(20) as pool:

        def write(number):
            arguments = {"key": f"flight/{number}", "value": str(number)}
            return client.call_tool("memory_set", arguments)["structuredContent"]["fact"]["value"]

        assert list(pool.map(write, range(20))) == [str(number) for number in range(20)]


@pytest.mark.parametrize("era", ["handshake", "modern"])
def test_a_refusal_keeps_its_code(over, era):
    with over(era=era) as client, pytest.raises(ToolFailed) as failed:
        client.call_tool("memory_delete", {"key": "never there"})
    assert failed.value.problem["code"] == "not_found"


def test_a_client_without_a_token_is_unauthorized(url):
    with pytest.raises(Unauthorized), Client.http(url):
        pass
