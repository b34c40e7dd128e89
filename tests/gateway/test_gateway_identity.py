"""Tokens as strangers and clients send them over HTTP: who is let in, to what, and for how long."""

import json
import re
import signal
import socket
import threading
import time
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime, timedelta

import httpx2
import pytest
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import connect

from gateway_serving import (
    ACCEPT,
    INITIALIZE,
    MODERN,
    SECONDS,
    TOKEN,
    http_server,
    message,
    modern,
)
from memory_store.opening import open_store
from memory_store.settings import StoreSettings
from store.office import Office

WITHIN_SECONDS = 5.0
PING = {"jsonrpc": "2.0", "id": 5, "method": "ping"}


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    return tmp_path_factory.mktemp("identity") / "memory.db"


@pytest.fixture(scope="module")
def served(database):
    with http_server(database) as server:
        yield server


@pytest.fixture(scope="module")
def office(served, database):  # noqa: ARG001  the server makes the database
    """Another process on the same memory, where tokens are made and revoked."""
    with closing(open_store(StoreSettings(memory_db=database))) as store:
        yield Office(store)


@pytest.fixture
def web(served):
    with client_of(served) as web:
        yield web


@pytest.fixture
def token(office, request):
    return office.create(request.node.name[:128], ("write",))


def client_of(server):
    base = server.url.removesuffix("/mcp")
    return httpx2.Client(base_url=base, timeout=SECONDS, headers=ACCEPT)


def bearer(secret):
    return {"Authorization": f"Bearer {secret}"}


def ask(web, secret, method, about=None, /, **params):
    """What a client of the newer protocol is answered."""
    names = {"Mcp-Method": method} | ({"Mcp-Name": about} if about else {})
    headers = bearer(secret) | MODERN | names
    return web.post("/mcp", json=modern(method, **params), headers=headers)


def call(web, secret, tool, **arguments):
    answer = ask(web, secret, "tools/call", tool, name=tool, arguments=arguments)
    assert answer.status_code == 200, answer.text
    return message(answer)["result"]


def status(web, secret):
    return ask(web, secret, "tools/list").status_code


def seconds_until(condition):
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < SECONDS, "it did not come true"
        time.sleep(0.02)
    return time.monotonic() - began


def opened(web, secret):
    response = web.post("/mcp", json=INITIALIZE, headers=bearer(secret))
    assert response.status_code == 200, response.text
    return {"Mcp-Session-Id": response.headers["mcp-session-id"]}


# Who is let in.


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


def test_a_token_for_another_time_is_refused(web, office):
    soon = datetime.now(UTC) + timedelta(seconds=1)
    made = office.create("short-lived", ("read",), expires_at=soon)
    assert status(web, made.secret) == 200
    assert seconds_until(lambda: status(web, made.secret) == 401) < 1 + WITHIN_SECONDS


def test_a_revoked_token_ends_everywhere_within_five_seconds(web, database, office, token):
    with http_server(database) as another, client_of(another) as there:
        assert {status(web, token.secret), status(there, token.secret)} == {200}
        office.revoke(token.token.name)
        for gateway in (web, there):
            assert seconds_until(lambda at=gateway: status(at, token.secret) == 401) < (
                WITHIN_SECONDS
            )


def test_a_rotated_token_is_good_beside_its_old_secret_for_the_overlap(web, office, token):
    rotated = office.rotate(token.token.name, 1.0)
    assert status(web, token.secret) == status(web, rotated.secret) == 200
    assert seconds_until(lambda: status(web, token.secret) == 401) < 1 + WITHIN_SECONDS
    assert status(web, rotated.secret) == 200


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


# What it is let in to.


@pytest.fixture(scope="module")
def confined(served, office):
    """A reader of one namespace, beside which there are others."""
    with client_of(served) as web:
        for namespace in ("default", "mine", "theirs"):
            call(web, TOKEN, "memory_set", namespace=namespace, key=f"of {namespace}", value="cat")
    return office.create("confined", ("read",), namespaces=("mine",)).secret


def test_a_reader_is_shown_what_reads_and_a_writer_all(web, confined, token):
    listed = message(ask(web, confined, "tools/list"))["result"]
    shown = {tool["name"]: tool["annotations"] for tool in listed["tools"]}
    everything = message(ask(web, token.secret, "tools/list"))["result"]["tools"]

    assert "memory_search" in shown
    assert all(annotations["readOnlyHint"] for annotations in shown.values())
    assert {"memory_set", *shown} < {tool["name"] for tool in everything}
    assert listed["cacheScope"] == "private"


WRITING = {
    "memory_set": {"key": "k", "value": "v"},
    "memory_delete": {"key": "of mine"},
    "memory_restore": {"key": "of mine", "version": 1},
    "memory_set_many": {"writes": [{"key": "k", "value": "v"}]},
}
READING = {
    "memory_get": {"key": "of theirs"},
    "memory_get_many": {"keys": ["of theirs"]},
    "memory_list": {},
    "memory_search": {"query": "cat"},
    "memory_history": {},
    "memory_stats": {},
}


def refused_call(web, secret, tool, arguments):
    result = call(web, secret, tool, **arguments)
    assert result["isError"]
    assert result["structuredContent"]["problem"]["code"] == "forbidden"
    return result["content"][0]["text"]


def test_a_reader_writes_nothing_and_is_told_why(web, confined):
    for tool, arguments in WRITING.items():
        said = refused_call(web, confined, tool, {"namespace": "mine"} | arguments)
        assert "needs the scope `write`" in said
    assert call(web, TOKEN, "memory_get", namespace="mine", key="k")["structuredContent"] == {
        "found": False,
        "fact": None,
    }


def test_every_tool_keeps_to_the_namespaces_of_a_token(web, confined):
    for tool, arguments in READING.items():
        for namespace in ({"namespace": "theirs"}, {}):
            said = refused_call(web, confined, tool, arguments | namespace)
            assert "mine" in said
            assert "theirs" not in said
        assert not call(web, confined, tool, **(arguments | {"namespace": "mine"})).get("isError")
    stats = call(web, confined, "memory_stats", namespace="mine")["structuredContent"]
    assert stats["namespaces"] == 1


def test_resources_keep_to_the_namespaces_of_a_token(web, confined):
    listed = message(ask(web, confined, "resources/list"))["result"]["resources"]
    assert [resource["uri"] for resource in listed] == ["memory://mine/of%20mine"]
    for uri, found in (("memory://mine/of%20mine", True), ("memory://theirs/of%20theirs", False)):
        answer = message(ask(web, confined, "resources/read", uri, uri=uri))
        assert ("result" in answer) == found
    assert "reach" in answer["error"]["message"]


def test_prompts_keep_to_the_namespaces_of_a_token(web, confined):
    for prompt, given in (("recall", {"topic": "cat"}), ("handoff", {})):
        for namespace, found in (("mine", True), ("theirs", False)):
            arguments = given | {"namespace": namespace}
            answer = message(
                ask(web, confined, "prompts/get", prompt, name=prompt, arguments=arguments)
            )
            assert ("result" in answer) == found
            assert "of theirs" not in json.dumps(answer)


def test_a_token_that_reaches_nothing_yet_lists_nothing(web, office):
    secret = office.create("early", ("read",), namespaces=("not yet",)).secret
    assert message(ask(web, secret, "resources/list"))["result"]["resources"] == []


# Sessions.


def test_a_session_is_there_for_the_principal_that_opened_it_alone(web, token):
    session = opened(web, TOKEN)
    unknown = {"Mcp-Session-Id": "0" * 32}
    for method, body in (("POST", PING), ("GET", None), ("DELETE", None)):
        theirs, nobodys = (
            web.request(method, "/mcp", json=body, headers=bearer(token.secret) | named)
            for named in (session, unknown)
        )
        assert theirs.status_code == nobodys.status_code == 404
        assert theirs.json() == nobodys.json()
    both = [*bearer(token.secret).items(), *opened(web, token.secret).items(), *session.items()]
    assert web.post("/mcp", json=PING, headers=both).status_code == 404
    assert web.post("/mcp", json=PING, headers=bearer(TOKEN) | session).status_code == 200


def test_a_session_outlives_the_rotation_of_its_token(web, office, token):
    session = opened(web, token.secret)
    rotated = office.rotate(token.token.name, 60.0)
    answer = web.post("/mcp", json=PING, headers=bearer(rotated.secret) | session)
    assert answer.status_code == 200


def test_a_flood_of_sessions_ends_only_sessions_of_its_own(tmp_path):
    database = tmp_path / "memory.db"
    with (
        http_server(database, MCP_MAX_SESSIONS="10") as server,
        closing(open_store(StoreSettings(memory_db=database))) as store,
        client_of(server) as web,
    ):
        one, other = (Office(store).create(name, ("read",)).secret for name in ("one", "other"))
        kept = [opened(web, one), opened(web, TOKEN)]
        flood = [opened(web, other) for _ in range(30)]
        late = opened(web, one)

        def answered(secret, session):
            return web.post("/mcp", json=PING, headers=bearer(secret) | session).status_code

        assert [answered(one, kept[0]), answered(TOKEN, kept[1])] == [200, 200]
        assert answered(one, late) == 200
        assert [answered(other, session) for session in flood].count(200) == 7


def test_who_uses_all_sessions_it_may_have_leaves_room_for_another(tmp_path):
    database = tmp_path / "memory.db"
    with (
        http_server(database, MCP_MAX_SESSIONS="10") as server,
        closing(open_store(StoreSettings(memory_db=database))) as store,
        client_of(server) as web,
        ExitStack() as streams,
    ):
        other = Office(store).create("other", ("read",)).secret
        for _ in range(9):
            session = bearer(other) | opened(web, other)
            streams.enter_context(web.stream("GET", "/mcp", headers=session))
        assert web.post("/mcp", json=INITIALIZE, headers=bearer(other)).status_code == 503
        opened(web, TOKEN)


# What is under way when a token ends.


class Reading(threading.Thread):
    """Reads a response to its end; `begun` once its head is there."""

    def __init__(self, web, *request, **options):
        super().__init__(daemon=True)
        self._request, self._options, self._web = request, options, web
        self.begun = threading.Event()
        self.ended_at = 0.0
        self.start()

    def run(self):
        with (
            suppress(httpx2.ReadError),  # the client may be closed before the stream ends
            self._web.stream(*self._request, **self._options) as response,
        ):
            self.begun.set()
            for _ in response.iter_raw():
                pass
            self.ended_at = time.monotonic()


def streams(web, secret):
    listen = modern("subscriptions/listen", notifications={"resourcesListChanged": True})
    method = MODERN | {"Mcp-Method": "subscriptions/listen"}
    session = bearer(secret) | opened(web, secret)
    return [
        Reading(web, "GET", "/mcp", headers=session),
        Reading(web, "POST", "/mcp", json=listen, headers=bearer(secret) | method),
        Reading(web, "GET", "/sse", headers=bearer(secret)),
        Reading(web, "GET", "/api/v1/events/stream", headers=bearer(secret)),
    ]


def test_streams_end_with_their_token_and_those_of_others_go_on(web, office, token):
    ending, staying = streams(web, token.secret), streams(web, TOKEN)
    assert all(stream.begun.wait(SECONDS) for stream in ending + staying)
    revoked_at = time.monotonic()
    office.revoke(token.token.name)
    for stream in ending:
        stream.join(SECONDS)
        assert 0 < stream.ended_at - revoked_at < WITHIN_SECONDS
    assert all(stream.is_alive() for stream in staying)


def test_a_websocket_ends_with_its_token_and_says_why(served, office, token):
    def connected(secret):
        url = served.url.replace("http", "ws").replace("/mcp", "/ws")
        return connect(url, additional_headers=bearer(secret), open_timeout=SECONDS)

    with connected(token.secret) as ending, connected(TOKEN) as staying:
        revoked_at = time.monotonic()
        office.revoke(token.token.name)
        with pytest.raises(ConnectionClosedError) as closed:
            ending.recv(SECONDS)
        assert time.monotonic() - revoked_at < WITHIN_SECONDS
        assert (closed.value.rcvd.code, "token" in closed.value.rcvd.reason) == (1008, True)
        staying.send(json.dumps(INITIALIZE))
        assert json.loads(staying.recv(SECONDS))["result"]


def test_a_stream_that_nobody_reads_ends_with_its_token_too(served, web, office, token):
    request = (
        f"GET /api/v1/events/stream?after=0 HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: Bearer {token.secret}\r\n\r\n"
    )
    for number in range(5):  # more than the buffers of the system hold
        writes = [{"key": f"{number}/{of}", "value": "x" * 16_000} for of in range(100)]
        call(web, TOKEN, "memory_set_many", writes=writes, namespace="long")
    with socket.create_connection(("127.0.0.1", served.port), timeout=SECONDS) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(request.encode())
        seconds_until(lambda: streams_open(web) == 1)
        office.revoke(token.token.name)
        assert seconds_until(lambda: streams_open(web) == 0) < WITHIN_SECONDS


def streams_open(web):
    told = web.get("/metrics", headers=bearer(TOKEN)).text
    return float(re.search(r"subscribers_event_streams ([\d.]+)$", told, re.MULTILINE)[1])


def test_a_call_under_way_ends_with_its_token_and_is_refused(tmp_path):
    database = tmp_path / "memory.db"
    with (
        http_server(database, MCP_ENABLE_DEMO_TOOLS="1") as server,
        closing(open_store(StoreSettings(memory_db=database))) as store,
        client_of(server) as web,
    ):
        ends = datetime.now(UTC) + timedelta(seconds=2)
        secret = Office(store).create("holder", ("write",), expires_at=ends).secret
        hold = {"name": "lock_hold", "arguments": {"seconds": 60}}
        began = time.monotonic()
        refused = ask(web, secret, "tools/call", "lock_hold", **hold)
    assert refused.status_code == 401
    assert "any more" in message(refused)["error"]["message"]
    assert time.monotonic() - began < 2 + WITHIN_SECONDS


# What is told of a secret.


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
