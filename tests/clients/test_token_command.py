"""`memory-bridge token`: asked of a running server and on the store itself, with one answer."""

import json
import re
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from memory_bridge import cli

pytest.importorskip("memory_gateway.main", reason="needs the extra `server`")

from gateway_serving import TOKEN, http_server
from memory_store.opening import open_store
from memory_store.settings import StoreSettings
from store.office import Office

SECRET = re.compile(r"mb_[\w-]{43}")


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    return tmp_path_factory.mktemp("tokens") / "memory.db"


@pytest.fixture(scope="module")
def served(database):
    with http_server(database) as server:
        yield server


@pytest.fixture
def office(served, database):  # noqa: ARG001  the server makes the database
    with closing(open_store(StoreSettings(memory_db=database))) as store:
        yield Office(store)


@pytest.fixture
def told(monkeypatch, capfd):
    for name in ("MCP_URL", "MCP_MEMORY_DB", "MCP_CLIENT_ID", "MCP_AUTH_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)

    def told(*words):
        code = cli.main(list(words))
        return code, *capfd.readouterr()

    return told


@pytest.fixture(params=["server", "store"])
def run(request, served, database, told):
    where = {
        "server": ["--url", served.url.removesuffix("/mcp"), "--token", TOKEN],
        "store": ["--db", str(database)],
    }
    return lambda *words: told("token", *words, *where[request.param])


@pytest.fixture
def name(request):
    """A name is never used twice."""
    return f"of {request.node.name}"[:128]


def listed(run, name):
    code, out, _ = run("list", "--json")
    assert code == 0
    return next(token for token in json.loads(out)["tokens"] if token["name"] == name)


def test_the_secret_alone_is_on_stdout_and_proves_what_was_granted(run, office, name):
    code, out, err = run(
        *("create", name, "--scope", "read", "--namespace", "a", "--namespace", "b, c"),
        *("--expires", "30d"),
    )
    assert code == 0
    secret = out.removesuffix("\n")
    assert SECRET.fullmatch(secret)
    assert secret not in err
    assert "Authorization: Bearer $MEMORY_BRIDGE_TOKEN" in err

    token = office.shown(secret)
    assert (token.name, token.scopes, token.namespaces) == (name, ("read",), ("a", "b, c"))
    assert abs((token.expires_at - token.created_at).days - 30) <= 1


def test_without_options_a_client_may_write_everywhere_for_ever(run, name):
    run("create", name)
    token = listed(run, name)
    assert (token["scopes"], token["namespaces"], token["expires_at"]) == (["write"], None, None)


def test_a_rotated_token_keeps_its_old_secret_for_the_overlap(run, office, name):
    first = run("create", name)[1].strip()
    code, out, err = run("rotate", name)
    second = out.strip()
    assert code == 0
    assert "good for 1:00:00" in err
    assert office.shown(first) == office.shown(second) != None  # noqa: E711  both prove a token

    third = run("rotate", name, "--overlap", "0s")[1].strip()
    assert [office.shown(secret) is None for secret in (first, second, third)] == [
        *[True, True, False]
    ]


def test_a_revoked_token_is_said_and_listed(run, office, name):
    secret = run("create", name)[1].strip()
    code, out, err = run("revoke", name)
    assert (code, err) == (0, "")
    assert f"The token {name} is revoked" in out
    assert office.shown(secret) is None
    assert listed(run, name)["revoked_at"]
    row = next(line for line in run("list")[1].splitlines() if line.startswith(name))
    assert "revoked" in row


def test_for_programs_everything_is_json(run, office, name):
    made = json.loads(run("create", name, "--json")[1])
    rotated = json.loads(run("rotate", name, "--json")[1])
    assert made["token"]["name"] == rotated["token"]["name"] == name
    assert office.shown(made["secret"]) == office.shown(rotated["secret"])
    assert json.loads(run("revoke", name, "--json")[1])["revoked_at"]


def test_what_cannot_be_ends_in_the_code_for_it_and_a_sentence(run, name):
    run("create", name)
    for words, expected in (
        (("create", name), 3),
        (("create", f"{name} late", "--expires", "2020-01-01"), 4),
        (("rotate", "nobody"), 1),
        (("revoke", "nobody"), 1),
    ):
        code, out, err = run(*words)
        assert (code, out) == (expected, "")
        assert err.startswith("memory-bridge: ")
        assert err.count("\n") == 1


def test_who_did_it_is_in_the_trail(run, office, name):
    run("create", name, "--client-id", "Jürgen")
    event = office.store.event_list(None, limit=1).events[0]
    assert event.detail == {"action": "create", "name": name}
    assert event.source_client == "Jürgen"


def test_a_token_of_a_client_makes_no_tokens(served, office, told, name):
    secret = office.create(name, ("write",)).secret
    code, out, err = told("token", "list", "--url", served.url, "--token", secret)
    assert (code, out) == (5, "")
    assert "admin" in err
    assert secret not in err


@pytest.mark.parametrize("token", ["mb_" + "x" * 43, "wrong-token-0123456789"])
def test_a_token_that_is_refused_is_said_so(served, told, token):
    code, _, err = told("token", "list", "--url", served.url, "--token", token)
    assert code == 5
    assert "401" in err


def test_where_there_is_no_memory_a_token_may_be_the_first_of_it(told, tmp_path):
    database = str(tmp_path / "new.db")
    assert told("token", "list", "--db", database)[0] == 1
    assert told("token", "create", "first", "--db", database)[0] == 0
    code, out, _ = told("token", "list", "--db", database)
    assert (code, out.split()[6:8]) == (0, ["state", "first"])


@pytest.mark.parametrize(
    "words",
    [
        ["create"],
        ["create", ""],
        ["create", "x", "--scope", "everything"],
        ["create", "x", "--expires", "soon"],
        ["create", "x", "--expires", "999999w"],
        ["rotate", "x", "--overlap", "-1s"],
        ["list", "--namespace", "x"],
        ["destroy", "x"],
        [],
    ],
)
def test_what_cannot_be_meant_is_refused(told, words):
    with pytest.raises(SystemExit) as ended:
        told("token", *words)
    assert ended.value.code == 2


@pytest.mark.parametrize("misplaced", ["--namespace", "--token", "--token-file"])
def test_an_option_that_has_no_place_is_refused(told, tmp_path, misplaced):
    code, _, err = told(misplaced, "x", "token", "list", "--db", str(tmp_path / "memory.db"))
    assert code == 2
    assert misplaced in err


def answering(status, body, headers):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            for pair in headers.items():
                self.send_header(*pair)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    return HTTPServer(("127.0.0.1", 0), Handler)


@pytest.mark.parametrize(
    ("status", "body", "headers", "code", "said"),
    [
        (404, b"<html>", {}, 6, "404"),
        (200, b"<html>", {}, 6, "JSON"),
        (200, b'{"tokens": 5}', {}, 6, "form"),
        (503, b'{"error": {"message": "later"}}', {"Retry-After": "1"}, 7, "later"),
        (429, b'{"code": "too_many_requests", "detail": "slower"}', {}, 7, "slower"),
        (308, b"", {"Location": "http://elsewhere/"}, 6, "elsewhere"),
    ],
)
def test_a_server_that_answers_something_else_is_told_of(told, status, body, headers, code, said):
    server = answering(status, body, headers)
    thread = Thread(target=server.handle_request)
    thread.start()
    got, out, err = told("token", "list", "--url", f"http://127.0.0.1:{server.server_port}")
    thread.join()
    server.server_close()
    assert (got, out) == (code, "")
    assert said in err


def test_a_server_that_is_not_there_is_said_so(told):
    server = answering(200, b"", {})
    server.server_close()
    url = f"http://127.0.0.1:{server.server_port}"
    assert told("token", "list", "--url", url)[0] == 6
