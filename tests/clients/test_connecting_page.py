"""What the page on connecting shows can be pasted."""

import json
import re
import shlex
import tomllib
from argparse import Namespace
from pathlib import Path

import pytest

from memory_bridge import cli

PAGE = (Path(__file__).parents[2] / "docs" / "connecting.md").read_text("utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def servers():
    for text in blocks("json"):
        block = json.loads(text)
        yield from (block.get("mcpServers") or block["servers"]).values()
    for text in blocks("toml"):
        yield from tomllib.loads(text)["mcp_servers"].values()


@pytest.mark.parametrize("server", list(servers()), ids=str)
def test_every_block_names_a_server_that_is_there(server):
    if "command" in server:
        options = cli._parsed(server["args"], Namespace(json=False, debug=False))
        assert options.command.name == "stdio"
        assert options.url == "http://127.0.0.1:8000/mcp"
    else:
        assert (server.get("url") or server["httpUrl"]) == "http://127.0.0.1:8000/mcp"


def test_the_shown_command_is_understood():
    (line,) = [block for block in blocks("sh") if block.startswith("memory-bridge stdio")]
    options = cli._parsed(shlex.split(line)[1:], Namespace(json=False, debug=False))
    assert options.token_file.endswith("token")


def test_the_script_is_python():
    for text in blocks("python"):
        compile(text, "connecting.md", "exec")
