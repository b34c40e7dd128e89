"""Tokens as strangers and clients send them: who is let in, and what is told of a secret."""

import signal
import socket
from contextlib import closing

import pytest

from gateway.identity.asking import call, client_of, status
from gateway_serving import INITIALIZE, SECONDS, TOKEN, http_server
from memory_store.opening import open_store
from memory_store.settings import StoreSettings
from store.office import Office


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "Bearer "])
def test_a_clients_token_is_let_in_in_both_eras(web, token, scheme):
    headers = {"Authorization": f"{scheme} {token.secret}"}
    assert web.post("/mcp", json=INITIALIZE, headers=headers).status_code == 200
    assert status(web, token.secret) == 200


SPOILED = {
    "truncated": lambda secret: f"Bearer {secret[:-1]}",
    "longer": lambda secret: f"Bearer {secret}x",
    "in capitals": lambda secret: f"Bearer {secret.upper()}",
    "without its prefix": lambda secret: f"Bearer {secret.removeprefix('mb_')}",
    "with a space in it": lambda secret: f"Bearer {secret[:9]} {secret[9:]}",
    "after a tab": lambda secret: f"Bearer\t{secret}",
    "in quotes": lambda secret: f'Bearer "{secret}"',
    "twice in one": lambda secret: f"Bearer {secret}, Bearer {secret}",
    "its digest": lambda _secret: "Bearer " + "0" * 64,
    "with a letter beyond ASCII": lambda secret: f"Bearer {secret}ü".encode(),
    "in full-width letters": lambda secret: (
        "Bearer " + "".join(chr(ord(letter) + 0xFEE0) for letter in secret)
    ).encode(),
    "basic": lambda secret: f"Basic {secret}",
    "no scheme": lambda secret: secret,
    "another scheme": lambda secret: f"Token {secret}",
    "nothing": lambda _secret: "Bearer",
}


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
def test_a_token_that_is_not_quite_right_is_refused(web, token, spoil):
    response = web.post("/mcp", json=INITIALIZE, headers={"Authorization": spoil(token.secret)})
    assert response.status_code == 401
    assert 'error="invalid_token"' in response.headers["www-authenticate"]
    assert response.json()["error"]["code"] == -32001
    assert token.secret not in response.text


ELSEWHERE = {
    "query": lambda secret: {"params": {"token": secret, "access_token": secret}},
    "cookie": lambda secret: {"headers": {"Cookie": f"token={secret}; Authorization={secret}"}},
    "body": lambda secret: {"json": INITIALIZE | {"access_token": secret, "token": secret}},
    "form": lambda secret: {"json": None, "data": {"access_token": secret}},
    "another header": lambda secret: {
        "headers": {"X-Api-Key": secret, "Proxy-Authorization": f"Bearer {secret}"}
    },
    "user of the URL": lambda secret: {"auth": ("bearer", secret)},
    "twice": lambda secret: {"headers": [("Authorization", f"Bearer {secret}")] * 2},
    "after another": lambda secret: {
        "headers": [("Authorization", "Bearer x"), ("Authorization", f"Bearer {secret}")]
    },
}


@pytest.mark.parametrize("place", ELSEWHERE.values(), ids=ELSEWHERE)
def test_only_one_authorization_header_counts(web, token, place):
    response = web.post("/mcp", **({"json": INITIALIZE} | place(token.secret)))
    assert response.status_code == 401


@pytest.mark.parametrize("smuggled", ["\r\nAuthorization: Bearer {}", "\n Bearer {}", "\0{}"])
def test_a_header_in_a_header_lets_nobody_in(served, token, smuggled):
    lines = f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x{smuggled}\r\n"
    request = lines.format(token.secret) + "Content-Length: 0\r\n\r\n"
    with socket.create_connection(("127.0.0.1", served.port), timeout=SECONDS) as connection:
        connection.sendall(request.encode())
        assert connection.recv(4096)[9:12] in {b"400", b"401"}


def test_a_token_says_who_wrote_and_the_claim_stays_beside_it(web, token):
    call(web, token.secret, "memory_set", key="claim", value="v", client_id="somebody else")
    (event,) = call(web, token.secret, "memory_history", key="claim")["structuredContent"]["events"]
    name = token.token.name
    assert (event["source_client"], event["principal"]) == (name, f"token:{name}")
    assert (event["claimed_client"], event["self_reported"]) == ("somebody else", False)

    call(web, TOKEN, "memory_set", key="claim", value="w", client_id="anybody")
    newest, _ = call(web, TOKEN, "memory_history", key="claim")["structuredContent"]["events"]
    assert (newest["source_client"], newest["principal"]) == ("anybody", "installation")
    assert (newest["claimed_client"], newest["self_reported"]) == (None, True)


def test_no_token_is_logged_however_it_comes_and_however_much_is_logged(tmp_path):
    wrong = "mb_" + "w" * 43
    database = tmp_path / "memory.db"
    with http_server(database, MCP_LOG_LEVEL="debug") as server:
        with closing(open_store(StoreSettings(memory_db=database))) as store:
            good = Office(store).create("ci", ("read",)).secret
        secrets = (TOKEN, good, wrong)
        with client_of(server) as web:
            for secret in secrets:
                for place in (*SPOILED.values(), lambda it: f"Bearer {it}"):
                    web.post("/mcp", json=INITIALIZE, headers={"Authorization": place(secret)})
                for place in ELSEWHERE.values():
                    web.post("/mcp", **({"json": INITIALIZE} | place(secret)))
                for path in ("/ws", f"/ws?token={secret}"):
                    upgrade(server, path, secret)
        _, said = server.stop(signal.SIGTERM)
    assert "401" in said
    for secret in secrets:
        assert secret not in said
        assert secret.removeprefix("mb_") not in said


def upgrade(server, path, secret):
    request = (
        f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        f"Sec-WebSocket-Protocol: mcp\r\nAuthorization: Bearer {secret}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS) as connection:
        connection.sendall(request.encode())
        assert connection.recv(4096)
