"""Identity where the store is another process, and where the installation's token changes."""

import time
from contextlib import ExitStack, closing

import pytest

from apart import SECRET, gateway_over, store_serving
from gateway.identity.asking import (
    PING,
    WITHIN_SECONDS,
    Reading,
    bearer,
    client_of,
    opened,
    seconds_until,
    status,
)
from gateway_serving import SECONDS, TOKEN, http_server
from memory_store.client import HttpStore
from store.office import Office

NEW = "a-newer-token-of-the-tests-0123456789"


def test_a_token_that_one_gateway_revokes_ends_at_another(tmp_path):
    with (
        store_serving(tmp_path / "memory.db") as store,
        gateway_over(store) as one,
        gateway_over(store) as other,
        client_of(one) as here,
        client_of(other) as there,
    ):
        administrator = bearer(TOKEN)
        grant = {"name": "ci", "scopes": ["read"]}
        made = here.post("/api/v1/tokens", json=grant, headers=administrator).json()
        secret = made["secret"]
        stream = Reading(there, "GET", "/api/v1/events/stream", headers=bearer(secret))
        assert stream.begun.wait(SECONDS)
        assert status(here, secret) == status(there, secret) == 200

        revoked_at = time.monotonic()
        here.delete("/api/v1/tokens/ci", headers=administrator)
        for gateway in (here, there):
            seconds_until(lambda at=gateway: status(at, secret) == 401)
        stream.join(SECONDS)
        assert time.monotonic() - revoked_at < WITHIN_SECONDS


def test_while_the_store_is_away_a_good_token_is_neither_refused_nor_let_in(tmp_path):
    database = tmp_path / "memory.db"
    with ExitStack() as stores:
        store = stores.enter_context(store_serving(database))
        with gateway_over(store) as gateway, client_of(gateway) as web:
            with closing(HttpStore(store.url, SECRET)) as office:
                secret = Office(office).create("ci", ("read",)).secret
            session = opened(web, secret)
            stream = Reading(web, "GET", "/mcp", headers=bearer(secret) | session)
            assert stream.begun.wait(SECONDS)
            stores.close()
            seconds_until(lambda: status(web, secret) == 503)
            refused = web.post("/mcp", json=PING, headers=bearer(secret))
            assert int(refused.headers["retry-after"]) > 0
            assert status(web, TOKEN) == 200

            stores.enter_context(store_serving(database, store.port))
            seconds_until(lambda: status(web, secret) == 200)
            assert stream.is_alive()


@pytest.fixture
def files(tmp_path):
    (tmp_path / "token").write_text(TOKEN)
    return tmp_path


def test_the_installations_token_is_changed_while_its_clients_go_on(files):
    settings = {
        "MCP_AUTH_TOKEN": "",
        "MCP_AUTH_TOKEN_FILE": str(files / "token"),
        "MCP_AUTH_TOKEN_PREVIOUS_FILE": str(files / "previous"),
    }
    with http_server(files / "memory.db", **settings) as server, client_of(server) as web:
        session = opened(web, TOKEN)
        assert status(web, NEW) == 401
        (files / "previous").write_text(TOKEN)
        (files / "token").write_text(NEW)
        assert seconds_until(lambda: status(web, NEW) == 200) < WITHIN_SECONDS
        assert status(web, TOKEN) == 200
        moved = web.post("/mcp", json=PING, headers=bearer(NEW) | session)
        assert moved.status_code == 200

        staying = Reading(web, "GET", "/mcp", headers=bearer(NEW) | session)
        ending = Reading(web, "GET", "/sse", headers=bearer(TOKEN))
        assert staying.begun.wait(SECONDS)
        assert ending.begun.wait(SECONDS)
        (files / "previous").unlink()
        assert seconds_until(lambda: status(web, TOKEN) == 401) < WITHIN_SECONDS
        assert seconds_until(lambda: not ending.is_alive()) < WITHIN_SECONDS
        assert staying.is_alive()
