"""What the server says before it starts, or instead of starting."""

import re
import shlex
import stat
import subprocess
import sys

import pytest

from gateway_serving import SECONDS, TOKEN, command, environment
from memory_gateway.settings import (
    HOW_TO_MAKE_ONE,
    SHORTEST_TOKEN,
    BadSetting,
    GatewaySettings,
    misspelled,
    read,
)

OLD = "an-older-token-of-the-tests"


def start(tmp_path, *arguments, **settings):
    return subprocess.run(
        command(str(tmp_path / "memory.db"), *arguments),
        input="",
        capture_output=True,
        text=True,
        env=environment(**settings),
        timeout=SECONDS,
        check=False,
    )


BAD = [
    ({"MCP_TRANSPORT": "carrier-pigeon"}, "MCP_TRANSPORT must be stdio or http."),
    ({"MCP_HTTP_PORT": "70000"}, "MCP_HTTP_PORT must be a port from 1 to 65535, or 0"),
    ({"MCP_LOG_LEVEL": "loud"}, "MCP_LOG_LEVEL must be debug, info, warning or error."),
    ({"MCP_TOOLSETS": "facts,graph"}, "MCP_TOOLSETS must be a list of toolsets, which are: facts"),
    ({"MCP_ENABLE_DEMO_TOOLS": "maybe"}, "MCP_ENABLE_DEMO_TOOLS must be 1 or 0."),
    ({"MCP_AUTH_TOKEN": "", "MCP_TRANSPORT": "http"}, "HTTP is not served without a token"),
    ({"MCP_AUTH_TOKEN": "short"}, "16 or more visible ASCII characters"),
    ({"MCP_AUTH_TOKEN_FILE": "/nowhere/token"}, "MCP_AUTH_TOKEN_FILE must be the name of"),
    ({"MCP_AUTH_TOKEN_FILE": "x", "MCP_AUTH_TOKEN": TOKEN}, "exclude each other"),
    ({"MCP_TRANSPORT": "http"}, "HTTP is not served without a token"),
    ({"MCP_AUTH_TOKEN_PREVIOUS": "short"}, "MCP_AUTH_TOKEN_PREVIOUS (or what"),
    ({"MCP_AUTH_TOKEN_PREVIOUS_FILE": "/"}, "or empty when it has ended"),
    (
        {"MCP_AUTH_TOKEN_PREVIOUS_FILE": "x", "MCP_AUTH_TOKEN_PREVIOUS": TOKEN},
        "MCP_AUTH_TOKEN_PREVIOUS_FILE exclude each other",
    ),
]


@pytest.mark.parametrize(("settings", "words"), BAD)
def test_a_bad_setting_is_a_sentence_that_names_the_variable(monkeypatch, settings, words):
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(BadSetting) as error:
        read(GatewaySettings, {})
    assert words in str(error.value)
    assert TOKEN not in str(error.value)


def test_http_without_a_token_does_not_start_and_says_how_to_make_one(tmp_path):
    ended = start(tmp_path, "--http")
    assert ended.returncode == 2
    assert "secrets.token_urlsafe" in ended.stderr
    assert "MCP_AUTH_TOKEN_FILE" in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert not (tmp_path / "memory.db").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other permissions")
def test_the_token_that_is_made_as_advised_is_for_its_owner_alone(tmp_path):
    advised = re.search(r"\(umask .*?> token\.txt\)", HOW_TO_MAKE_ONE)[0]
    line = advised.replace("python3", shlex.quote(sys.executable))
    subprocess.run(["sh", "-c", f"umask 022; {line}"], cwd=tmp_path, check=True)
    made = tmp_path / "token.txt"
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    assert len(made.read_text().strip()) >= SHORTEST_TOKEN


@pytest.mark.parametrize("name", ["MCP_HTTP_PORT", "MCP_SQLITE_BUSY_TIMEOUT", "MCP_EMBEDDINGS"])
def test_a_bad_setting_of_any_part_stops_the_start(tmp_path, name):
    ended = start(tmp_path, **{name: "perhaps"})
    assert ended.returncode == 2
    assert name in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_token_is_read_from_its_file(tmp_path):
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    settings = read(GatewaySettings, {"auth_token_file": tmp_path / "token"})
    assert settings.auth_token is not None
    assert settings.auth_token.get_secret_value() == TOKEN
    assert TOKEN not in repr(settings)


def test_the_previous_token_is_good_beside_the_present_one_if_there_is_one(tmp_path, monkeypatch):
    (tmp_path / "previous").write_text("")
    monkeypatch.setenv("MCP_AUTH_TOKEN", TOKEN)
    for name in ("previous", "absent"):
        monkeypatch.setenv("MCP_AUTH_TOKEN_PREVIOUS_FILE", str(tmp_path / name))
        assert read(GatewaySettings, {}).tokens() == (TOKEN,)
    monkeypatch.setenv("MCP_AUTH_TOKEN_PREVIOUS_FILE", "")
    monkeypatch.setenv("MCP_AUTH_TOKEN_PREVIOUS", OLD)
    settings = read(GatewaySettings, {})
    assert settings.tokens() == (TOKEN, OLD)
    assert OLD not in repr(settings)


def test_lists_are_separated_by_commas(monkeypatch):
    monkeypatch.setenv("MCP_ALLOWED_HOSTS", "a.example, b.example,")
    assert read(GatewaySettings, {}).allowed_hosts == ("a.example", "b.example")


def test_a_misspelled_variable_of_any_part_is_warned_about(tmp_path):
    ended = start(tmp_path, MCP_HTP_PORT="1", MCP_EMBEDINGS="on", MCP_INSPECTOR_COLOUR="red")
    assert ended.returncode == 0
    assert "Did you mean MCP_HTTP_PORT?" in ended.stderr
    assert "Did you mean MCP_EMBEDDINGS?" in ended.stderr
    assert "INSPECTOR" not in ended.stderr


def test_only_what_is_near_a_known_name_is_a_misspelling():
    environ = {"MCP_CLIENT_IDS": "", "MCP_SERVER": "", "PATH": "", "MCP_CLIENT_ID": ""}
    assert misspelled({"MCP_CLIENT_ID"}, environ) == {"MCP_CLIENT_IDS": "MCP_CLIENT_ID"}


NOTHING = ("MCP_AUTH_TOKEN", "MCP_MEMORY_DB", "MCP_HTTP_PORT", "MCP_EMBEDDING_THREADS")


def test_an_empty_variable_counts_as_not_set(tmp_path):
    ended = start(tmp_path, **dict.fromkeys((*NOTHING, "MCP_MEMORY_STORE_DIR"), ""))
    assert (ended.returncode, ended.stderr) == (0, "")
    ended = start(tmp_path, "--http", MCP_AUTH_TOKEN="", MCP_AUTH_TOKEN_FILE="")
    assert ended.returncode == 2
    assert "HTTP is not served without a token" in ended.stderr


@pytest.mark.parametrize("host", ["a..b", f"{'a' * 64}.example", "256.0.0.1"])
def test_a_host_that_is_none_is_a_sentence(tmp_path, host):
    ended = start(tmp_path, "--http", MCP_AUTH_TOKEN=TOKEN, MCP_HTTP_HOST=host, MCP_HTTP_PORT="0")
    assert (ended.returncode, ended.stderr.count("\n")) == (1, 1)
    assert f"Cannot listen on {host}" in ended.stderr


def test_a_folder_of_nobody_is_a_sentence():
    for setting in ("MCP_MEMORY_DB", "MCP_MEMORY_STORE_DIR"):
        ended = subprocess.run(
            command(),
            capture_output=True,
            text=True,
            env=environment(**{setting: "~nobody-of-that-name/x"}),
            timeout=SECONDS,
            check=False,
        )
        assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
        assert setting in ended.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&-"])
def test_without_a_client_it_says_so(tmp_path, closed):
    line = f"exec {shlex.join(command(str(tmp_path / 'memory.db')))} {closed}"
    ended = subprocess.run(
        ["/bin/sh", "-c", line],
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        timeout=SECONDS,
        check=False,
    )
    assert (ended.returncode, ended.stderr.count("\n")) == (1, 1)
    assert "there is no client" in ended.stderr
