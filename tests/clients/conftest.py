"""The command line, and a server that answers as the test says."""

import pytest

from clients.http_peer import Peer
from memory_bridge import cli


@pytest.fixture
def peer():
    with Peer().serving() as peer:
        yield peer


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in ("MCP_URL", "MCP_AUTH_TOKEN", "MCP_AUTH_TOKEN_FILE", "MCP_CLIENT_ID"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.fixture
def run(peer, capsys):
    def run(*words, answer=None, problem=None):
        result = {"content": [], "structuredContent": answer}
        if problem is not None:
            text = {"type": "text", "text": problem["message"]}
            result = {
                "isError": True,
                "content": [text],
                "structuredContent": {"problem": problem},
            }
        tool = f"memory_{next(word for word in words if not word.startswith('-'))}"
        peer.answers[tool] = lambda exchange: exchange.result(result)
        code = cli.main(["--url", peer.url, *words])
        return code, *capsys.readouterr()

    return run
