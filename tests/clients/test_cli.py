"""The command line against a server that answers as the test says."""

import io
import json
import sys
import types

import pytest

from clients.answers import EVENT, FACT, arguments
from memory_bridge import __version__, cli


def test_set_passes_on_what_was_said_and_nothing_else(run, peer):
    words = ["set", "sky", "blue", "--tag", "a", "--tag", "b", "--metadata", '{"n": 1}']
    code, out, _ = run(*words, "--ttl", "1.5", "--expect-version", "2", answer={"fact": FACT})
    assert (code, out) == (0, "sky is at version 3\n")
    assert arguments(peer) == {
        "key": "sky",
        "value": "blue",
        "tags": ["a", "b"],
        "metadata": {"n": 1},
        "ttl_seconds": 1.5,
        "expected_version": 2,
    }


def test_namespace_and_client_go_with_every_call(run, peer, environment):
    environment.setenv("MCP_CLIENT_ID", "from-the-environment")
    run("stats", "--namespace", "work", answer={"facts": 1})
    assert arguments(peer) == {"namespace": "work", "client_id": "from-the-environment"}
    run("stats", "--client-id", "said", answer={"facts": 1})
    assert arguments(peer) == {"client_id": "said"}


def test_a_value_may_come_from_stdin_exactly_as_it_is(run, peer, environment):
    text = " é\r\n\u2028😀\n"
    environment.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    run("set", "sky", "-", answer={"fact": FACT})
    assert arguments(peer)["value"] == text


def test_stdin_that_is_not_utf8_is_wrong_usage(run, peer, environment):
    environment.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"ab\xff")))
    code, _, err = run("set", "sky", "-", answer={"fact": FACT})
    assert code == 2
    assert "byte 0xff at offset 2" in err
    assert not peer.requests


def test_get_prints_the_bare_value(run):
    assert run("get", "sky", answer={"found": True, "fact": FACT}) == (0, "blue", "")


@pytest.mark.parametrize(("at", "sent"), [("2", 2), ("2026-01-31", "2026-01-31")])
def test_get_at_takes_a_version_or_a_time(run, peer, at, sent):
    run("get", "sky", "--at", at, answer={"found": True, "fact": FACT})
    assert arguments(peer)["at"] == sent


def test_what_is_absent_ends_in_one(run):
    code, out, err = run("get", "sky", answer={"found": False, "fact": None})
    assert (code, out) == (1, "")
    assert err == "There is no such fact.\n"


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["list"], {"facts": [], "next_cursor": None}),
        (["search", "x"], {"mode": "lexical", "hits": [], "degraded": None}),
        (["history"], {"events": [], "next_cursor": None}),
    ],
)
def test_an_empty_answer_ends_in_one(run, words, answer):
    code, out, err = run(*words, answer=answer)
    assert (code, out) == (1, "")
    assert err


def test_list_keeps_a_row_for_each_fact_whatever_it_holds(run):
    nasty = {**FACT, "key": "日本", "value": "one\ntwo\x1b[31m\u202e"}
    code, out, err = run("list", answer={"facts": [FACT, nasty], "next_cursor": "abc"})
    assert code == 0
    assert out.splitlines() == [
        "KEY   VER  UPDATED (UTC)        BY      TAGS  VALUE",
        "sky   3    2026-01-31 12:00:01  cursor  a,b   blue",
        r"日本  3    2026-01-31 12:00:01  cursor  a,b   one\ntwo\x1b[31m\u202e",
    ]
    assert "--cursor abc" in err


def test_list_all_follows_the_cursors(peer, capsys):
    pages = {None: (["a", "b"], "next"), "next": (["c"], None)}

    def page(exchange):
        cursor = exchange.message["params"]["arguments"].get("cursor")
        keys, following = pages[cursor]
        facts = [{**FACT, "key": key} for key in keys]
        answer = {"facts": facts, "next_cursor": following}
        exchange.result({"content": [], "structuredContent": answer})

    peer.answers["memory_list"] = page
    assert cli.main(["list", "--all", "--json", "--url", peer.url]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [fact["key"] for fact in answer["facts"]] == ["a", "b", "c"]
    assert answer["next_cursor"] is None


def test_search_shows_scores_and_says_when_it_ranks_by_words_only(run, peer):
    hit = {"fact": FACT, "score": 0.8349, "cosine": None, "lexical": 1.0}
    answer = {"mode": "lexical", "hits": [hit], "degraded": "Embeddings are off."}
    code, out, err = run("search", "what colour", "--top-k", "3", "--prefix", "s", answer=answer)
    assert code == 0
    assert out.splitlines() == ["SCORE  KEY  VALUE", "0.835  sky  blue"]
    assert "Embeddings are off." in err
    assert arguments(peer) == {"query": "what colour", "top_k": 3, "prefix": "s"}


@pytest.mark.parametrize(("pending", "facts"), [(1, "1 fact is"), (7, "7 facts are")])
def test_search_says_why_something_written_a_moment_ago_may_be_missing(run, pending, facts):
    answer = {"mode": "hybrid", "hits": [], "degraded": None, "pending": pending}
    code, _, err = run("search", "what colour", answer=answer)

    assert code == 1
    assert f"{facts} not yet findable by meaning" in err


def test_search_shows_the_passage_of_a_long_value_that_matched(run):
    value = "Something else.\n" * 900 + "The colour is BLUE.\n" + "And so on. " * 900
    hit = {"fact": {**FACT, "value": value}, "score": 0.5}
    answer = {"mode": "hybrid", "hits": [hit], "degraded": None}
    (row,) = run("search", "what colour?", answer=answer)[1].splitlines()[1:]
    assert row.startswith("0.500  sky  …")
    assert r"thing else.\nThe colour is BLUE.\nAnd so" in row
    assert row.endswith("…")
    assert len(row) < 100


def test_list_shows_the_beginning_of_a_long_value_on_one_line(run):
    answer = {"facts": [{**FACT, "value": "once\nupon a time " * 1000}], "next_cursor": None}
    (row,) = run("list", answer=answer)[1].splitlines()[1:]
    assert r"  once\nupon a time" in row
    assert row.endswith("…")
    assert len(row) < 150


def test_history_says_who_changed_what(run):
    conflict = {**EVENT, "kind": "conflict", "value_before": "blue", "value_after": "red"}
    first = {**EVENT, "value_before": None, "self_reported": False, "claimed_client": "vim"}
    search = {**EVENT, "kind": "search", "value_before": None, "value_after": None, "key": None}
    search["detail"] = {"query": "sky", "found": 2}
    _, out, _ = run("history", answer={"events": [EVENT, conflict, first, search]})
    head, *rows = out.splitlines()
    assert head.startswith("WHEN (UTC)           WHO ")
    assert [" ".join(row.split()) for row in rows] == [
        "2026-01-31 12:00:01 cursor* set sky 3 grey → blue",
        "2026-01-31 12:00:01 cursor* conflict sky 3 kept blue, refused red",
        "2026-01-31 12:00:01 cursor (as vim) set sky 3 ∅ → blue",
        "2026-01-31 12:00:01 cursor* search 3 query=sky found=2",
    ]


def test_the_history_of_a_key_shows_where_the_old_and_the_new_value_begin_to_differ(run):
    before, after = (f"{'the port ' * 99}is {port} {'today ' * 99}" for port in ("5432", "6543"))
    event = {**EVENT, "value_before": before, "value_after": after}
    head, row = run("history", "sky", answer={"events": [event]})[1].splitlines()
    assert "KEY" not in head
    assert row.startswith("2026-01-31 12:00:01  cursor*  set   3    …")
    old, new = row.split(" → ")
    assert "is 5432" in old
    assert "is 6543" in new
    assert len(row) < 130


def test_delete_restore_and_stats_say_what_was_done(run, peer):
    assert run("delete", "sky", answer={"removed": FACT})[1] == (
        "sky is removed; it was at version 3\n"
    )
    assert run("restore", "sky", "1", answer={"fact": FACT})[1] == "sky is at version 3\n"
    assert arguments(peer) == {"key": "sky", "version": 1}
    backlog = {"pending": 2, "failed": 0, "failure": None}
    out = run("stats", answer={"facts": 7, "backlog": backlog, "model": None})[1]
    assert [" ".join(line.split()) for line in out.splitlines()] == [
        "facts 7",
        "backlog pending 2, failed 0",
        "model -",
    ]


@pytest.mark.parametrize("before", [True, False])
def test_json_is_exactly_the_structured_answer(run, before):
    answer = {"found": True, "fact": {**FACT, "value": "é\n\x1b"}, "unknown": [1.5, None]}
    words = ["--json", "get", "sky"] if before else ["get", "sky", "--json"]
    code, out, err = run(*words, answer=answer)
    assert (code, json.loads(out), err) == (0, answer, "")


@pytest.mark.parametrize(
    "words",
    [
        ["get", "k"],
        ["list"],
        ["search", "x"],
        ["history"],
        ["stats"],
        ["delete", "k"],
        ["restore", "k", "1"],
    ],
)
def test_a_database_that_does_not_exist_is_not_made_by_asking_it(words, tmp_path, capsys):
    file = tmp_path / "mistyped.db"
    assert cli.main([*words, "--db", str(file)]) == 2
    told = f"memory-bridge: There is no database {file}; `set` would create it.\n"
    assert capsys.readouterr().err == told
    assert not file.exists()


def test_help_says_what_begins_with_a_dash_and_what_makes_it_fast(capsys):
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    help_text = " ".join(capsys.readouterr().out.split())
    assert "goes after --, unless it is a number or the dash alone" in help_text
    assert "with $MCP_URL or --url it is answered at once" in help_text


@pytest.mark.parametrize("text", ["-5", "-0.5"])
def test_a_negative_number_needs_no_dashes_before_it(run, peer, text):
    run("set", "sky", text, answer={"fact": FACT})
    assert arguments(peer)["value"] == text


def test_the_token_comes_from_the_option_the_file_or_the_environment(
    run, peer, tmp_path, environment
):
    def token_of(*words):
        run("stats", *words, answer={})
        return peer.sent("tools/call")[-1][0]["Authorization"]

    file = tmp_path / "token"
    file.write_text("from-a-file\n")
    assert token_of() is None
    environment.setenv("MCP_AUTH_TOKEN_FILE", str(file))
    assert token_of() == "Bearer from-a-file"
    environment.setenv("MCP_AUTH_TOKEN", "from-the-environment")
    assert token_of() == "Bearer from-the-environment"
    assert token_of("--token-file", str(file)) == "Bearer from-a-file"
    assert token_of("--token", "said") == "Bearer said"


def test_the_address_may_come_from_the_environment_and_without_its_path(run, peer, environment):
    run("stats", answer={"facts": 1})
    environment.setenv("MCP_URL", peer.url.removesuffix("/mcp"))
    assert cli.main(["stats"]) == 0


def test_what_comes_after_serve_is_the_servers_own(environment):
    seen = []
    server = types.SimpleNamespace(main=seen.append)
    environment.setitem(sys.modules, "memory_gateway.main", server)
    assert cli.main(["serve", "file.db", "--http"]) == 0
    assert seen == [["file.db", "--http"]]


def test_serving_without_its_extra_says_how_to_get_it(environment, capsys):
    environment.setitem(sys.modules, "memory_gateway.main", None)
    assert cli.main(["serve"]) == 6
    assert "pip install 'mcp-memory-bridge[server]'" in capsys.readouterr().err


def test_the_version_is_that_of_the_distribution(capsys):
    with pytest.raises(SystemExit):
        cli.main(["--version"])
    assert capsys.readouterr().out == f"memory-bridge {__version__}\n"
