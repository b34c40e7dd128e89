"""The raw client against the official SDK's server, over both transports and in both eras."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memory_bridge.client import Client, MCPError, ToolFailed

pytest.importorskip("mcp", reason="needs the official SDK")

SCRIPT = str(Path(__file__).with_name("sdk_server.py"))


@pytest.fixture(scope="module")
def url():
    command = [sys.executable, SCRIPT, "http"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
        process.terminate()


@pytest.fixture(params=["handshake", "modern"])
def era(request):
    return request.param


@pytest.fixture(params=["stdio", "http"])
def client(request, era, url):
    if request.param == "http":
        made = Client.http(url, era=era)
    else:
        made = Client.stdio([sys.executable, SCRIPT, "stdio"], era=era)
    with made as client:
        yield client


def test_the_server_says_who_it_is(client, era):
    if era == "handshake":
        assert client.server["serverInfo"]["name"] == "bare"
    else:
        assert "2026-07-28" in client.server["supportedVersions"]


def test_its_tool_is_listed_and_called(client):
    assert [tool["name"] for tool in client.list_tools()] == ["double"]
    assert client.call_tool("double", {"number": 21})["structuredContent"] == {"doubled": 42}


def test_calls_in_flight_keep_their_answers(client):
    def doubled(number):
        return client.call_tool("double", {"number": number})["structuredContent"]["doubled"]

    with ThreadPoolExecutor(20) as pool:
        assert list(pool.map(doubled, range(40))) == [2 * number for number in range(40)]


def test_a_tool_that_fails_and_a_method_that_is_missing_are_told_apart(client):
    with pytest.raises(ToolFailed, match="double"):
        client.call_tool("double", {"number": -1})
    with pytest.raises(MCPError) as unknown:
        client.request("no/such/method")
    assert unknown.value.code == -32601


def test_a_resource_is_read_by_its_name(client):
    contents = client.request("resources/read", {"uri": "memory://käse"})["contents"]
    assert contents[0]["text"] == "the fact käse"
