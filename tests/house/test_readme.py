"""What the README, the settings and the script for clients show works as it stands there."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from memory_embedder.settings import EmbedderSettings, RedisSettings, WorkerSettings
from memory_gateway.settings import GatewaySettings, variable_names
from memory_store.settings import ClientSettings, ServerSettings, StoreSettings

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
SETTINGS = (ROOT / "docs" / "settings.md").read_text("utf-8")
CONNECTING = (ROOT / "docs" / "connecting.md").read_text("utf-8")
VARIABLE = re.compile(r"`((?:MCP|OTEL)_[A-Z_]+)`")
TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
TOKEN = "a-token-for-the-readme-0123456789"


def blocks(language: str, page: str = README) -> list[str]:
    block = re.compile(rf"^```{language}\n(.*?)^```", re.MULTILINE | re.DOTALL)
    return block.findall(page)


@pytest.fixture
def environment(tmp_path):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MCP_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
    return kept | {"PATH": path, "MCP_MEMORY_STORE_DIR": str(tmp_path)}


@pytest.fixture
def url(environment):
    settings = {"MCP_AUTH_TOKEN": TOKEN, "MCP_HTTP_PORT": "0"}
    with subprocess.Popen(
        [sys.executable, "-m", "memory_bridge", "serve", "--http"],
        env=environment | settings,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        lines = iter(server.stderr.readline, "")
        yield next(line.split()[-1] for line in lines if line.startswith("listening on "))
        server.terminate()


def test_the_settings_table_names_every_setting_and_no_other():
    rows = [line for line in SETTINGS.splitlines() if line.startswith("|")]
    named = [name for row in rows for name in VARIABLE.findall(row.split("|")[1])]
    stores = (StoreSettings, ServerSettings, ClientSettings)
    embedders = (EmbedderSettings, RedisSettings, WorkerSettings)
    known = variable_names(GatewaySettings, *stores, *embedders)
    assert sorted(named) == sorted(known | {"MCP_URL", "MCP_DEBUG"})  # the command line's own
    assert set(VARIABLE.findall(README)) <= set(named)


def test_the_history_that_is_shown_is_what_is_printed(environment):
    (shown,) = blocks("console")
    command, _, expected = shown.partition("\n")
    for client, written in (
        ("claude-code", ["5432"]),
        ("cursor", ["5433", "--expect-version", "1"]),
        ("ci", ["5434", "--expect-version", "1"]),
    ):
        line = ["memory-bridge", "set", "deploy/db-port", *written, "--client-id", client]
        subprocess.run(line, env=environment, capture_output=True, timeout=60, check=False)

    printed = subprocess.run(
        shlex.split(command.removeprefix("$ ")),
        env=environment,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )

    assert TIME.sub("", printed.stdout + printed.stderr) == TIME.sub("", expected)


def test_the_configurations_are_json_and_start_what_exists():
    configurations = [json.loads(block) for block in blocks("json")]

    assert len(configurations) == 2
    text = json.dumps(configurations)
    assert '"args": ["serve"]' in text
    assert text.count('"http://127.0.0.1:8000/mcp"') == 1


def test_the_script_prints_what_it_remembered(tmp_path, environment, url):
    token = tmp_path / ".memory-bridge" / "token"
    token.parent.mkdir()
    token.write_text(TOKEN + "\n")
    (script,) = blocks("python", CONNECTING)

    printed = subprocess.run(
        [sys.executable, "-c", script.replace("http://127.0.0.1:8000/mcp", url)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert printed.stdout == "5432\n"


def test_the_commands_work_in_the_order_they_are_shown(environment):
    (session,) = [block for block in blocks("sh") if "memory-bridge set" in block]

    for line in session.splitlines():
        command = shlex.split(line, comments=True)
        subprocess.run(command, env=environment, capture_output=True, timeout=60, check=True)
