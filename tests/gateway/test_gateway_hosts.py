"""Which hosts, origins and proxies the server believes, and what it tells web pages."""

import socket

import httpx2
import pytest

from gateway_serving import ACCEPT, AUTHORIZED, INITIALIZE, SECONDS, TOKEN, http_server, message
from memory_gateway.hosts import HostNames, read_host
from memory_gateway.proxies import behind_proxies
from memory_gateway.settings import BadSetting, GatewaySettings, read

ORIGIN = "https://app.example"
PREFLIGHT = {
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization, content-type, mcp-protocol-version,"
    " mcp-session-id, mcp-method, mcp-name, last-event-id",
}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    settings = {
        "MCP_ALLOWED_HOSTS": "box.example.net, box.example.org:8443, fd00::1",
        "MCP_ALLOWED_ORIGINS": f"{ORIGIN}, http://page.example:3000",
    }
    with http_server(tmp_path_factory.mktemp("hosts") / "memory.db", **settings) as server:
        yield server


@pytest.fixture
def web(served):
    base = served.url.removesuffix("/mcp")
    with httpx2.Client(base_url=base, timeout=SECONDS, headers=ACCEPT) as web:
        yield web


def exchange(server, head, body=b""):
    """The response to a request that is written byte by byte as given."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS) as connection:
        connection.sendall(head.replace("\n", "\r\n").encode("latin-1") + b"\r\n\r\n" + body)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def status(response):
    return int(response.split(b" ", 2)[1])


TRICKS = {
    "a listed name with any port": ("box.example.net:8443", 404),
    "in capitals": ("BOX.Example.NET", 404),
    "a name with its port": ("box.example.org:8443", 404),
    "a name with another port": ("box.example.org:8444", 421),
    "a name without its port": ("box.example.org", 421),
    "an address in brackets": ("[fd00::1]:8000", 404),
    "an address without brackets": ("fd00::1", 421),
    "loopback of version 6": ("[::1]:8000", 404),
    "a foreign name": ("evil.example", 421),
    "a name that begins so": ("localhost.evil.example", 421),
    "a name that ends so": ("evil-localhost", 421),
    "a dot at the end": ("localhost.", 421),
    "port 0": ("localhost:0", 421),
    "a port too large": ("localhost:65536", 421),
    "a port that is none": ("localhost:80x", 421),
    "a port in other digits": ("localhost:\xb2", 421),
    "an empty port": ("localhost:", 421),
    "a user": ("user@localhost", 421),
    "localhost as the user": ("localhost@evil.example", 421),
    "two names": ("localhost, evil.example", 421),
    "a blank": ("localhost evil.example", 421),
    "a path": ("localhost/evil.example", 421),
    "nothing": ("", 421),
}


@pytest.mark.parametrize(("host", "expected"), TRICKS.values(), ids=TRICKS)
def test_a_host_is_served_only_if_it_is_listed(served, host, expected):
    head = f"GET /nowhere HTTP/1.1\nHost: {host}\nAuthorization: Bearer {TOKEN}\nConnection: close"
    response = exchange(served, head)
    assert status(response) == expected
    assert b'"jsonrpc": "2.0"' in response


@pytest.mark.parametrize("hosts", ["", "\nHost: localhost\nHost: localhost"])
def test_a_request_names_its_host_once(served, hosts):
    response = exchange(served, f"GET /nowhere HTTP/1.1{hosts}\nConnection: close")
    assert status(response) == 400
    assert b'"jsonrpc": "2.0"' in response


@pytest.mark.parametrize(
    ("target", "host", "expected"),
    [
        ("http://evil.example/nowhere", "localhost", 421),
        ("http://evil.example", "localhost", 421),
        ("http://localhost@evil.example/nowhere", "localhost", 421),
        ("http://localhost/nowhere", "evil.example", 404),
        ("HTTP://localhost:8000/nowhere?x=http://evil.example/", "localhost", 404),
        ("/nowhere?x=http://evil.example/", "localhost", 404),
    ],
)
def test_a_host_in_the_target_counts_and_not_the_header(served, target, host, expected):
    head = f"GET {target} HTTP/1.1\nHost: {host}\nAuthorization: Bearer {TOKEN}\nConnection: close"
    assert status(exchange(served, head)) == expected


@pytest.mark.parametrize("listed", ["a b", "http://a.example", "a.example/x", "a:b:c:d:g", "*"])
def test_what_is_no_host_name_cannot_be_listed(listed):
    with pytest.raises(ValueError, match=r".*"):
        read_host(listed)
    with pytest.raises(BadSetting, match="MCP_ALLOWED_HOSTS must be host names"):
        read(GatewaySettings, {"allowed_hosts": listed})


def test_any_port_may_be_written_as_a_star():
    names = HostNames(["box.example.net:*"])
    assert names.include("box.example.net")
    assert names.include("box.example.net:10000")


@pytest.mark.parametrize("path", ["/mcp", "/mcp/", "/sse", "/messages", "/api/v1/facts"])
@pytest.mark.parametrize("origin", [ORIGIN, "http://page.example:3000"])
def test_a_preflight_of_a_listed_origin_needs_no_token(web, path, origin):
    response = web.options(path, headers=PREFLIGHT | {"Origin": origin})
    assert response.status_code == 200
    assert response.headers["access-control-allow-origin"] == origin
    assert "POST" in response.headers["access-control-allow-methods"]
    allowed = response.headers["access-control-allow-headers"].lower()
    assert all(name.strip() in allowed for name in PREFLIGHT[[*PREFLIGHT][1]].split(","))
    assert "access-control-allow-credentials" not in response.headers


def test_a_preflight_allows_every_header_that_the_http_interface_takes(web):
    document = web.get("/api/v1/openapi.json", headers=AUTHORIZED).json()
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    parameters = [it for operation in operations for it in operation.get("parameters", ())]
    names = {it["name"] for it in parameters if it["in"] == "header"}
    assert "If-Match" in names
    asked = {"Access-Control-Request-Headers": ", ".join(names), "Origin": ORIGIN}
    for method in ("GET", "PUT", "PATCH", "DELETE"):
        preflight = PREFLIGHT | asked | {"Access-Control-Request-Method": method}
        assert web.options("/api/v1/fact", headers=preflight).status_code == 200


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "https://app.example:8443", "http://app.example", "null", "*", ""],
)
def test_a_page_of_another_origin_is_told_nothing(web, origin):
    preflight = web.options("/mcp", headers=PREFLIGHT | {"Origin": origin})
    assert preflight.status_code == 400
    assert preflight.json()["error"]["message"]
    asked = web.post("/mcp", json=INITIALIZE, headers=AUTHORIZED | {"Origin": origin})
    assert asked.status_code == 403
    for response in (preflight, asked):
        assert "access-control-allow-origin" not in response.headers


def test_a_page_of_a_listed_origin_reads_answers_and_refusals(web):
    answered = web.post("/mcp", json=INITIALIZE, headers=AUTHORIZED | {"Origin": ORIGIN})
    assert message(answered)["result"]
    refused = web.post("/mcp", json=INITIALIZE, headers={"Origin": ORIGIN})
    assert refused.status_code == 401
    for response in (answered, refused):
        assert response.headers["access-control-allow-origin"] == ORIGIN
        exposed = response.headers["access-control-expose-headers"]
        assert {"Mcp-Session-Id", "WWW-Authenticate"} <= set(exposed.split(", "))
        assert "Origin" in response.headers["vary"]


def test_options_without_an_origin_is_no_preflight(web):
    assert web.options("/mcp", headers=PREFLIGHT).status_code == 401
    assert web.options("/mcp", headers=PREFLIGHT | AUTHORIZED).status_code == 405


@pytest.mark.parametrize("listed", ["app.example", "https://app.example/", "*", "https://"])
def test_what_is_no_origin_cannot_be_listed(listed):
    with pytest.raises(BadSetting, match="MCP_ALLOWED_ORIGINS must be origins"):
        read(GatewaySettings, {"allowed_origins": listed})


async def seen_behind(proxies, peer, *forwarded, scheme=None):
    """The client and the scheme of a request as the application sees them."""
    seen = {}

    async def app(scope, _receive, _send):
        seen.update(scope)

    headers = [(b"x-forwarded-for", value) for value in forwarded]
    headers += [(b"x-forwarded-proto", scheme)] if scheme else []
    scope = {"type": "http", "client": (peer, 1), "scheme": "http", "headers": headers}
    await behind_proxies(app, proxies)(scope, None, None)
    return seen["client"][0], seen["scheme"]


PROXIES = ("127.0.0.1", "10.0.0.0/8", "fd00::/8")
FORWARDED = {
    "nothing is said": ((), "10.0.0.1"),
    "a client": ((b"203.0.113.7",), "203.0.113.7"),
    "with its port": ((b"203.0.113.7:4711",), "203.0.113.7"),
    "version 6": ((b"2001:db8::7",), "2001:db8::7"),
    "version 6 with its port": ((b"[2001:db8::7]:4711",), "2001:db8::7"),
    "through two proxies": ((b"203.0.113.7, 10.2.3.4",), "203.0.113.7"),
    "what the client wrote itself": ((b"127.0.0.1, 203.0.113.7",), "203.0.113.7"),
    "what the client wrote in a header of its own": ((b"8.8.8.8", b"203.0.113.7"), "203.0.113.7"),
    "behind the last proxy that is known": ((b"1.1.1.1, 203.0.113.7, 10.9.9.9",), "203.0.113.7"),
}


@pytest.mark.anyio
@pytest.mark.parametrize(("forwarded", "client"), FORWARDED.values(), ids=FORWARDED)
async def test_a_listed_proxy_says_whom_it_serves(forwarded, client):
    found, scheme = await seen_behind(PROXIES, "10.0.0.1", *forwarded, scheme=b"https")
    assert (found, scheme) == (client, "https")


@pytest.mark.anyio
@pytest.mark.parametrize("proxies", [(), ("10.0.0.0/8",)])
@pytest.mark.parametrize("peer", ["127.0.0.1", "::1", "203.0.113.9"])
async def test_nobody_else_is_believed_not_even_on_this_machine(proxies, peer):
    seen = await seen_behind(proxies, peer, b"198.51.100.1", scheme=b"https")
    assert seen == (peer, "http")


@pytest.mark.anyio
@pytest.mark.parametrize("scheme", [b"javascript", b"https://evil.example/", b"", b"https, http"])
async def test_a_scheme_that_is_none_is_not_taken(scheme):
    assert await seen_behind(PROXIES, "10.0.0.1", scheme=scheme) == ("10.0.0.1", "http")


@pytest.mark.parametrize("listed", ["*", "proxy.example", "10.0.0.1/8", "10.0.0.0/33", "::1/64"])
def test_what_is_no_address_of_a_proxy_cannot_be_listed(listed):
    with pytest.raises(BadSetting, match="MCP_TRUSTED_PROXIES must be addresses or networks"):
        read(GatewaySettings, {"trusted_proxies": listed})


@pytest.mark.parametrize(("proxies", "address"), [("127.0.0.1", "203.0.113.7"), ("", "127.0.0.1")])
def test_the_log_names_the_client_and_not_the_proxy(tmp_path, proxies, address):
    with http_server(tmp_path / "memory.db", MCP_TRUSTED_PROXIES=proxies) as server:
        forwarded = {"X-Forwarded-For": "203.0.113.7"}
        assert httpx2.get(server.url, headers=forwarded).status_code == 401
        server.process.terminate()
        server.process.wait(SECONDS)
        server.reader.join(SECONDS)
    [told] = [line for line in server.errors if '"status": 401' in line]
    assert f'"address": "{address}"' in told
