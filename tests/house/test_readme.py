"""What the README shows works as it stands there."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from memory_embedder.settings import EmbedderSettings, RedisSettings
from memory_gateway.settings import GatewaySettings, variable_names
from memory_store.settings import ClientSettings, StoreSettings

README = Path(__file__).parents[2] / "README.md"
TOKEN = "a-token-for-the-readme-0123456789"


def blocks(language: str) -> list[str]:
    block = re.compile(rf"^```{language}\n(.*?)^```", re.MULTILINE | re.DOTALL)
    return block.findall(README.read_text("utf-8"))


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
    documented = set(re.findall(r"`((?:MCP|OTEL)_[A-Z_]+)`", README.read_text("utf-8")))

    settings = (GatewaySettings, StoreSettings, ClientSettings, EmbedderSettings, RedisSettings)
    known = variable_names(*settings)
    assert documented == known | {"MCP_URL", "MCP_DEBUG"}  # the command line's own


def test_the_configurations_are_json_and_start_what_exists():
    configurations = [json.loads(block) for block in blocks("json")]

    assert len(configurations) == 3
    text = json.dumps(configurations)
    assert '"args": ["serve"]' in text
    assert text.count('"http://127.0.0.1:8000/mcp"') == 2


def test_the_script_prints_what_it_remembered(tmp_path, environment, url):
    token = tmp_path / ".memory-bridge" / "token"
    token.parent.mkdir()
    token.write_text(TOKEN + "\n")
    (script,) = blocks("python")

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
