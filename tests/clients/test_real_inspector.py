"""The official Inspector's command line: what it prints, and its exit codes."""

import json
import os
import subprocess

import pytest

from clients.real_client import SECONDS
from gateway_serving import TOKEN, command, http_server
from http_interface import client as web_client
from http_interface import set_fact
from node_clients import node_command

pytest.importorskip("memory_gateway.main", reason="needs the extra `server`")

AUTH_REQUIRED = 3
TOOL_FAILED = 5
ERAS = ("legacy", "modern")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("inspector")


@pytest.fixture(scope="module")
def gateway(folder):
    node_command("mcp-inspector")
    with http_server(folder / "memory.db") as server:
        with web_client(server.url) as web:
            set_fact(web, "listed", "v")
        yield server


@pytest.fixture
def inspect(folder):
    def inspect(*words):
        return subprocess.run(
            node_command("mcp-inspector", "--cli", *words, "--format", "json", "-q"),
            env={"PATH": os.environ["PATH"], "HOME": str(folder), "MCP_EMBEDDINGS": "off"},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    return inspect


def over(url, token=TOKEN):
    return (url, "--header", f"Authorization: Bearer {token}")


def call(tool, **arguments):
    words = ("--method", "tools/call", "--tool-name", tool)
    return (*words, "--tool-args-json", json.dumps(arguments))


@pytest.mark.parametrize("era", ERAS)
def test_a_tool_is_called(gateway, inspect, era):
    asked = call("memory_set", key=era, value="v")
    ran = inspect(*over(gateway.url), *asked, "--protocol-era", era)
    assert (ran.returncode, ran.stderr) == (0, "")
    fact = json.loads(ran.stdout)["result"]["structuredContent"]["fact"]
    assert (fact["key"], fact["source_client"]) == (era, "inspector-cli")


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("transport", ["mcp", "sse", "stdio"])
def test_facts_are_listed_as_resources(gateway, inspect, folder, era, transport):
    own_server = command(str(folder / "memory.db"))
    to = own_server if transport == "stdio" else over(gateway.url.replace("/mcp", f"/{transport}"))
    ran = inspect(*to, "--method", "resources/list", "--protocol-era", era)
    assert (ran.returncode, ran.stderr) == (0, "")
    resources = json.loads(ran.stdout)["result"]["resources"]
    assert "memory://default/listed" in [resource["uri"] for resource in resources]


def test_a_tool_that_fails_has_an_exit_code_and_a_sentence(gateway, inspect):
    ran = inspect(*over(gateway.url), *call("memory_set", key="", value="v"))
    assert ran.returncode == TOOL_FAILED
    assert "must not be empty" in json.loads(ran.stdout)["result"]["content"][0]["text"]


@pytest.mark.parametrize("transport", ["mcp", "sse"])
def test_a_wrong_token_has_an_exit_code(gateway, inspect, transport):
    url = gateway.url.replace("/mcp", f"/{transport}")
    ran = inspect(*over(url, "a-token-of-nobody"), "--method", "resources/list")
    assert ran.returncode == AUTH_REQUIRED
    assert json.loads(ran.stderr)["error"]["code"] == "auth_required"


def test_it_finds_no_fault_in_the_schemas_of_the_tools(gateway, inspect):
    ran = inspect(*over(gateway.url), "--method", "tools/list", "--strict")
    assert ran.returncode == 0, ran.stderr
