"""What is typed: every spelling of it is either sent as it was meant or refused in a sentence."""

import io

import pytest

from clients.answers import FACT, arguments
from memory_bridge import cli

ENDLESS = ("nan", "inf", "-inf", "1e999")


def nested(levels):
    return '{"a":' * levels + "1" + "}" * levels


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        *((["search", "q", f"--min-score={text}"], "not a number") for text in ENDLESS),
        *((["set", "k", "v", f"--ttl={text}"], "not a number") for text in ENDLESS),
        *((["stats", f"--timeout={text}"], "not a number of seconds") for text in ENDLESS),
        (["stats", "--timeout", "1e10"], "up to 86400"),
        (["set", "k", "v", "--metadata", '{"a": [1e999]}'], "1e999 is larger than"),
        (["set", "k", "v", "--metadata", '{"a": -1e999}'], "-1e999 is larger than"),
        (["set", "k", "v", "--metadata", '{"a": [{"b": "\\ud800"}]}'], "surrogate"),
        (["set", "k", "v", "--metadata", '{"\\udfff": 1}'], "surrogate"),
        (["set", "k", "v", "--metadata", nested(900)], "deeper than 100 levels"),
        (["set", "k", "v", "--metadata", nested(100_000)], "--metadata: "),
        (["set", "k", "v", "--metadata", '{"a": ' + "9" * 5000 + "}"], "not JSON"),
        (["restore", "k", "9" * 5000], "invalid int value"),
    ],
)
def test_what_no_message_can_carry_is_wrong_usage(words, sentence, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("depth", [1, 32, 100])
def test_what_the_server_is_to_judge_is_sent(run, peer, depth):
    run("set", "k", "v", "--metadata", nested(depth), answer={"fact": FACT})
    assert str(arguments(peer)["metadata"]).count("{") == depth


@pytest.mark.parametrize("options", [["--tag", "a"], []])
def test_two_dashes_are_a_value_like_any_other(run, peer, options):
    run("set", *options, "kk", "--", "--", answer={"fact": FACT})
    assert (arguments(peer)["key"], arguments(peer)["value"]) == ("kk", "--")
    run("set", *options, "--", "--", "--x", answer={"fact": FACT})
    assert (arguments(peer)["key"], arguments(peer)["value"]) == ("--", "--x")


def test_two_dashes_may_be_given_to_an_option_too(run, peer):
    words = ["set", "k", "v", "--tag=--", "--tag=a=--", "--expect-value=--", "--namespace=--"]
    run(*words, answer={"fact": FACT})
    sent = arguments(peer)
    assert sent["tags"] == ["--", "a=--"]
    assert (sent["expected_value"], sent["namespace"]) == ("--", "--")


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("http://a..b", "its host"),
        (f"http://{'a' * 64}.example", "its host"),
        ("http://a b/", "its host"),
        ("http://\u2028x/", "its host"),
        ("http://[::1", "is not a URL"),
        ("http://x:99999", "is not a URL"),
        ("http://", "is not a URL"),
    ],
)
def test_an_address_that_names_no_host_is_wrong_usage(url, sentence, capsys):
    assert cli.main(["get", "k", "--url", url]) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "asked"),
    [
        ("/p\u00e4/m\u2028", "/p%C3%A4/m%E2%80%A8"),
        ("/a b?q=\u00fc&r=1", "/a%20b?q=%C3%BC&r=1"),
        ("/a%20b/~x;y=(1)", "/a%20b/~x;y=(1)"),
    ],
)
def test_a_path_is_sent_as_a_url_spells_it(peer, typed, asked):
    url = peer.url.removesuffix("/mcp") + typed
    peer.answers["memory_get"] = lambda exchange: seen.append(exchange.path) or exchange.empty(404)
    seen = []
    assert cli.main(["get", "k", "--url", url]) == 6
    assert set(seen) == {asked}


@pytest.mark.parametrize("name", ["MCP_CLIENT_ID", "MCP_URL", "MCP_AUTH_TOKEN"])
def test_a_variable_that_is_not_utf8_is_wrong_usage(name, environment, capsys):
    environment.setenv(name, "\udcff")
    assert cli.main(["get", "k"]) == 2
    assert capsys.readouterr().err == f"memory-bridge: {name} is not UTF-8; convert it first.\n"


class Endless(io.RawIOBase):
    """As much input as anybody asks for."""

    def readable(self):
        return True

    def readinto(self, buffer):
        return len(buffer)


class Broken(Endless):
    def readinto(self, _buffer):
        raise IsADirectoryError(21, "Is a directory")


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (None, "stdin is closed"),
        (Endless(), "stdin holds more than 67108864 bytes"),
        (Broken(), "stdin cannot be read: Is a directory."),
    ],
)
def test_input_that_cannot_be_had_is_wrong_usage(source, sentence, peer, environment, capsys):
    stdin = source and io.TextIOWrapper(io.BufferedReader(source))
    environment.setattr("sys.stdin", stdin)
    assert cli.main(["set", "k", "-", "--url", peer.url]) == 2
    assert sentence in capsys.readouterr().err
    assert not peer.requests
