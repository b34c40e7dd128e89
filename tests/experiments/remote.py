"""A client elsewhere: over TLS, by a public name, through a stand-in for Tailscale's Funnel."""

import http.client
import socket
import ssl
import sys
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path

import resolving
from bench.figures import milliseconds, percentile
from bench.served import environment
from experiments.findings import Finding, Sizes
from experiments.serving import PUBLIC_NAME, SECONDS, Site
from memory_bridge.client import Client
from memory_bridge.memory import Memory
from tls_front import VISITOR, TlsFront, tls_front

NAMESPACE, KEY, VALUE = "remote", "deploy/db-port", "5432"
QUESTION = "which port does the database use?"


def measure(site: Site, sizes: Sizes) -> Finding:
    with tls_front(PUBLIC_NAME, site.server.port, site.folder) as front:
        found, times = used(front, site.token_for("laptop"), sizes.calls)
        protocol, refused = visited(front, PUBLIC_NAME)
        _, misled = visited(front, "elsewhere.example.net")
    seen = VISITOR in "".join(site.server.errors)
    return Finding(
        "remote over TLS, through a stand-in for Funnel",
        "the stub reads and writes by the public name; 401 without a token, 421 for another name;"
        " the log has the visitor's address",
        f"{protocol}; “{QUESTION}” → {found}; a read {percentile(times, 50):.1f} ms in the middle,"
        f" {percentile(times, 95):.1f} ms p95; {refused} without a token, {misled} for another"
        f" name; the visitor is {'' if seen else 'not '}in the log",
        holds=seen
        and found == VALUE
        and (refused, misled) == (HTTPStatus.UNAUTHORIZED, HTTPStatus.MISDIRECTED_REQUEST),
        by_hand="MCP_ALLOWED_HOSTS=memory.example.ts.net MCP_TRUSTED_PROXIES=127.0.0.1 make run\n"
        "tailscale funnel 8000\n"
        "memory-bridge stdio --url https://memory.example.ts.net/mcp --token-file $FILE",
    )


def used(front: TlsFront, token_file: Path, calls: int) -> tuple[str, Sequence[float]]:
    """Writes, asks and reads through the stub; returns what was found and milliseconds of reads."""
    words = ["stdio", "--url", front.url, "--token-file", str(token_file)]
    command = [sys.executable, resolving.__file__, PUBLIC_NAME, "memory_bridge", *words]
    variables = environment({"SSL_CERT_FILE": str(front.certificate)})
    with Client.stdio(command, environment=variables, timeout=SECONDS, name="laptop") as client:
        memory = Memory(client, NAMESPACE, None)
        memory.call("memory_set", {"key": KEY, "value": VALUE})
        hits = memory.call("memory_search", {"query": QUESTION})["hits"]
        times = [
            milliseconds(lambda: memory.call("memory_get", {"key": KEY})) for _ in range(calls)
        ]
    return hits[0]["fact"]["value"], times


def visited(front: TlsFront, host: str) -> tuple[str, int]:
    """Asks for the list of facts without a token; returns the version of TLS and the status."""
    context = ssl.create_default_context(cafile=front.certificate)
    plain = socket.create_connection(("127.0.0.1", front.port), SECONDS)
    with context.wrap_socket(plain, server_hostname=front.name) as secured:
        connection = http.client.HTTPConnection(host)
        connection.sock = secured
        connection.request("GET", "/api/v1/facts", headers={"Host": host})
        return secured.version() or "no TLS", connection.getresponse().status
