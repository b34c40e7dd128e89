"""Which real clients there are, and what each is seen to do over which transport."""

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from gateway_serving import TOKEN, command, environment
from node_clients import PACKAGES, node_command, node_script

OLDER = "2025-11-25"
NEWER = "2026-07-28"
PYTHON = "Python SDK"
TYPESCRIPT_1 = "TypeScript SDK 1"
TYPESCRIPT_2 = "TypeScript SDK 2"
SCRIPTS = {TYPESCRIPT_1: "typescript_v1.mjs", TYPESCRIPT_2: "typescript_v2.mjs"}

STAYS = "goes on, and hears on"
DEAF = "goes on; subscribe again"
LOST = "says so; connect again"
"""What a client does after a restart of the gateway."""

ANSWERED = "is answered"
FAILS = "fails at once"
WAITS = "waits for a minute"
"""What becomes of its call that is under way when the gateway is killed."""


@dataclass(frozen=True)
class Case:
    """`mode` is how the client negotiates the protocol, where it can be told."""

    client: str
    mode: str
    transport: str
    protocol: str
    restarted: str
    killed: str

    def __str__(self):
        return " ".join(filter(None, (self.client, self.mode, self.transport)))

    @property
    def number(self):
        return CASES.index(self)

    @property
    def is_installed(self):
        return self.client == PYTHON or PACKAGES.is_dir()

    @property
    def proves_who_it_is(self):
        return self.transport != "stdio"

    @property
    def program(self):
        """The command line of the client; skips the test where it is not installed."""
        if self.client == PYTHON:
            return [sys.executable, str(Path(__file__).with_name("python_sdk.py")), self.mode]
        return node_script(SCRIPTS[self.client], self.mode)

    @property
    def row(self):
        """What the page on connecting says of it."""
        client = f"{self.client}, `{self.mode}`" if self.mode else self.client
        hears = "`resources/subscribe`" if self.protocol == OLDER else "`subscriptions/listen`"
        told = (client, self.transport, self.protocol, hears, self.restarted, self.killed)
        return f"| {' | '.join(told)} |"

    def target(self, gateway, token=TOKEN):
        """What the client is told to connect to."""
        return TARGETS[self.transport](gateway, token)


def http(gateway, token):
    return {"transport": "http", "url": gateway.url, "token": token}


def sse(gateway, token):
    return {"transport": "sse", "url": gateway.url.replace("/mcp", "/sse"), "token": token}


def websocket(gateway, token):
    url = gateway.url.replace("http:", "ws:").replace("/mcp", "/ws")
    return {"transport": "ws", "url": url, "token": token}


def stdio(gateway, _token):
    """A server of its own on the same file."""
    return started(command(str(gateway.database)))


def stub(gateway, token):
    token_file = gateway.token_file.with_name(f"token-{token}")
    token_file.write_text(token)
    return started(gateway.stub("--token-file", str(token_file)))


def mcp_remote(gateway, token):
    header = f"Authorization: Bearer {token}"
    options = ("--transport", "http-only", "--allow-http", "--header", header)
    own = tempfile.mkdtemp(dir=gateway.database.parent)
    return started(node_command("mcp-remote", gateway.url, *options), MCP_REMOTE_CONFIG_DIR=own)


def started(words, **settings):
    kept = ("PATH", "HOME", "MCP_EMBEDDINGS", *settings)
    env = {name: text for name, text in environment(**settings).items() if name in kept}
    return {"transport": "stdio", "command": words, "env": env}


TARGETS = {
    "http": http,
    "sse": sse,
    "ws": websocket,
    "stdio": stdio,
    "our stub": stub,
    "mcp-remote": mcp_remote,
}
CASES = [
    Case(PYTHON, "auto", "http", NEWER, DEAF, FAILS),
    Case(PYTHON, "auto", "ws", NEWER, LOST, FAILS),
    Case(PYTHON, "auto", "stdio", NEWER, STAYS, ANSWERED),
    Case(PYTHON, "auto", "our stub", NEWER, STAYS, ANSWERED),
    Case(PYTHON, "legacy", "http", OLDER, LOST, FAILS),
    Case(PYTHON, "legacy", "sse", OLDER, LOST, FAILS),
    Case(PYTHON, "legacy", "ws", OLDER, LOST, FAILS),
    Case(PYTHON, "legacy", "stdio", OLDER, STAYS, ANSWERED),
    Case(PYTHON, "legacy", "our stub", OLDER, STAYS, ANSWERED),
    Case(TYPESCRIPT_1, "", "http", OLDER, LOST, FAILS),
    Case(TYPESCRIPT_1, "", "sse", OLDER, LOST, WAITS),
    Case(TYPESCRIPT_1, "", "stdio", OLDER, STAYS, ANSWERED),
    Case(TYPESCRIPT_1, "", "our stub", OLDER, STAYS, ANSWERED),
    Case(TYPESCRIPT_1, "", "mcp-remote", OLDER, DEAF, FAILS),
    Case(TYPESCRIPT_2, "legacy", "http", OLDER, LOST, FAILS),
    Case(TYPESCRIPT_2, "legacy", "sse", OLDER, LOST, WAITS),
    Case(TYPESCRIPT_2, "legacy", "stdio", OLDER, STAYS, ANSWERED),
    Case(TYPESCRIPT_2, "legacy", "our stub", OLDER, STAYS, ANSWERED),
    Case(TYPESCRIPT_2, "auto", "http", NEWER, DEAF, FAILS),
    Case(TYPESCRIPT_2, "auto", "stdio", NEWER, STAYS, ANSWERED),
    Case(TYPESCRIPT_2, "auto", "our stub", NEWER, STAYS, ANSWERED),
    Case(TYPESCRIPT_2, "auto", "mcp-remote", NEWER, DEAF, FAILS),
]
