"""The doctor at servers that are made wrong in one way each."""

import contextlib
import json
import socket
import tempfile
import threading
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from clients.certificates import self_signed, tls_of
from clients.http_peer import Peer
from memory_bridge import cli, settings
from memory_bridge.doctor import network
from memory_bridge.doctor.examination import CHECKS, examine
from memory_bridge.doctor.target import Credentials, Target

TOKEN = "a-token-of-the-tests-0123456789"
STATS = {"facts": 1, "bytes": 4096, "free_bytes": 1 << 40, "backlog": {"pending": 0, "failed": 0}}
MEMORY = "memory_bridge_machine_memory_bytes 1e+09\nmemory_bridge_machine_memory_available_bytes "


class Server:
    """A scripted Memory Bridge that is well; `says` has what each of its addresses answers."""

    def __init__(self, peer):
        self.peer = peer
        self.date = None
        self.headers = {}
        self.says = {
            "/healthz": (200, {"status": "alive"}),
            "/readyz": (200, {"status": "ready", "checks": {"store": "ok", "model": "ok"}}),
            "/mcp": (401, {}),
            "/api/v1/version": (200, {"name": "memory-bridge", "version": "9.9"}),
            "/api/v1/stats": (200, STATS),
            "/api/v1/search": (200, {"hits": [], "mode": "semantic"}),
            "/metrics": (200, f"{MEMORY}5e+08\n"),
        }
        peer.answers["GET"] = self.answer

    def answer(self, exchange):
        if self.date:
            exchange.date_time_string = lambda _=None: self.date
        status, body = self.says[exchange.path.partition("?")[0]]
        text = body if isinstance(body, str) else json.dumps(body)
        exchange.body(status, text.encode(), self.headers)

    def examined(self, token=TOKEN, file=None, **options):
        return examined(self.peer.url, Credentials(token, file), **options)


def examined(url, credentials=None, **options):
    target = Target(url, credentials, **({"timeout": 20.0} | options))
    return dict(examine(target))


@pytest.fixture
def server(peer):
    return Server(peer)


@contextlib.contextmanager
def hanging_up():
    """A port where whoever comes is sent away without a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def send_away():
            with contextlib.suppress(OSError):
                while True:
                    listening.accept()[0].close()

        threading.Thread(target=send_away, daemon=True).start()
        yield listening.getsockname()[1]


def bad(findings):
    return {name: finding.state for name, finding in findings.items() if finding.cure}


def test_a_server_that_is_well_has_nothing_but_good_findings(server):
    found = server.examined()
    assert {finding.state for finding in found.values()} <= {"ok", "skipped"}
    assert list(found) == [check.name for check in CHECKS]


def test_a_name_that_nobody_knows_is_told_of_and_nothing_more_is_tried():
    found = examined("http://nobody.invalid/mcp", timeout=5.0)
    assert bad(found) == {"dns": "failed", "privacy": "warning"}
    assert "nobody.invalid" in found["dns"].says
    assert found["connection"].state == found["server"].state == found["disk"].state == "unseen"


def test_a_node_that_funnel_does_not_know_has_a_cure_of_its_own():
    assert "MagicDNS" in examined("https://nobody.invalid.ts.net/mcp", timeout=5.0)["dns"].cure


@pytest.mark.parametrize(
    ("address", "inside"),
    [("100.101.102.103", True), ("fd7a:115c:a1e0::1", True), ("203.0.113.9", False)],
)
def test_an_address_of_the_tailnet_is_no_way_through_funnel(address, inside):
    assert network._in_tailnet([address]) == inside


def test_a_port_where_nobody_listens_is_told_of():
    found = examined("http://127.0.0.1:1/mcp")
    assert bad(found) == {"connection": "failed"}
    assert "daemon start" in found["connection"].cure


@pytest.mark.parametrize(
    ("begin", "end", "trusted", "says"),
    [
        (-30, -1, True, "expired"),
        (1, 30, True, "not yet valid"),
        (-1, 1, False, "self-signed"),
        (-89, 1, True, "0 more days"),
    ],
)
def test_a_certificate_that_is_not_good_is_told_of(
    tmp_path, monkeypatch, begin, end, trusted, says
):
    certificate = self_signed(tmp_path, begin=begin, end=end)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with Peer().serving(tls_of(certificate)) as peer:
        found = Server(peer).examined()
    assert says in found["certificate"].says.replace("self signed", "self-signed")
    assert "certificate" in bad(found)


def test_a_certificate_of_another_name_is_told_of(tmp_path, monkeypatch):
    certificate = self_signed(tmp_path, "127.0.0.2")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with Peer().serving(tls_of(certificate)) as peer:
        found = Server(peer).examined()["certificate"]
    assert found.state == "failed"
    assert "made for" in found.cure


def test_a_certificate_that_is_good_tells_how_long(tmp_path, monkeypatch):
    certificate = self_signed(tmp_path, begin=-10, end=80)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with Peer().serving(tls_of(certificate)) as peer:
        found = Server(peer).examined()
    assert "79 more days" in found["certificate"].says
    assert bad(found) == {}


def test_a_node_that_hangs_up_before_tls_is_told_of():
    with hanging_up() as port:
        found = examined(f"https://127.0.0.1:{port}/mcp")
    assert bad(found) == {"certificate": "failed"}


@pytest.mark.parametrize("hours", [-3, 3])
def test_a_clock_that_is_wrong_is_told_of_with_its_direction(server, hours):
    server.date = format_datetime(datetime.now(UTC) + timedelta(hours=hours), usegmt=True)
    found = server.examined()
    assert bad(found) == {"clock": "failed"}
    assert ("ahead of" if hours > 0 else "behind") in found["clock"].says


def test_a_clock_that_is_a_little_off_is_right(server):
    server.date = format_datetime(datetime.now(UTC) - timedelta(seconds=10), usegmt=True)
    assert bad(server.examined()) == {}


@pytest.mark.parametrize(
    ("answer", "headers", "cure"),
    [
        ((502, "<html>"), {}, "no gateway answers behind it"),
        ((200, "<html>"), {}, "Another program"),
        ((308, ""), {"Location": "https://elsewhere/"}, "https://elsewhere/"),
    ],
)
def test_what_is_no_memory_bridge_is_told_of(server, answer, headers, cure):
    server.says["/healthz"], server.headers = answer, headers
    found = server.examined()
    assert bad(found) == {"server": "failed"}
    assert cure in found["server"].cure


def test_a_door_that_stands_open_is_told_of(server):
    server.says["/mcp"] = (405, {})
    assert "without a token" in server.examined()["allow-list"].says


def test_a_host_that_is_not_on_the_list_is_told_of(server):
    server.says["/mcp"] = (421, {"error": {"message": "not served"}})
    found = server.examined()
    assert bad(found) == {"allow-list": "failed"}
    assert "MCP_ALLOWED_HOSTS" in found["allow-list"].cure


@pytest.mark.parametrize(("status", "cure"), [(401, "token list"), (429, "RATE"), (503, "store")])
def test_a_token_that_is_refused_is_told_of(server, status, cure):
    server.says["/api/v1/version"] = (status, {"error": {"message": "no"}})
    found = server.examined()
    assert bad(found) == {"token": "failed"}
    assert cure in found["token"].cure


def test_a_token_that_no_header_can_hold_is_never_sent(server):
    assert server.examined("two words")["token"].state == "failed"
    assert all("Authorization" not in headers for _, headers, _ in server.peer.requests)


@pytest.fixture
def shared_folder():
    """A folder with nothing above it that keeps others out, as pytest's own are."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


@pytest.mark.parametrize(
    ("mode", "folder_mode", "state"),
    [
        (0o644, 0o750, "ok"),
        (0o640, 0o755, "ok"),
        (0o644, 0o755, "failed"),
        (0o604, 0o711, "failed"),
    ],
)
def test_a_token_file_that_others_may_read_is_told_of(
    server, shared_folder, mode, folder_mode, state
):
    token = shared_folder / "token"
    token.write_text(TOKEN)
    token.chmod(mode)
    shared_folder.chmod(folder_mode)
    found = server.examined(TOKEN, str(token))
    assert (found["token file"].state, found["token"].state) == (state, "ok")


@pytest.mark.parametrize(
    ("checks", "wrong"),
    [
        ({"store": "down", "model": "off"}, {"store": "failed"}),
        ({"store": "ok", "queue": "down", "model": "unknown"}, {"queue": "failed"}),
        ({"store": "ok", "queue": "ok", "model": "down"}, {"model": "failed"}),
        ({"store": "ok", "model": "off"}, {}),
    ],
)
def test_what_the_server_depends_on_is_told_apart(server, checks, wrong):
    server.says["/readyz"] = (200, {"checks": checks})
    assert bad(server.examined()) == wrong


def test_an_older_server_that_names_no_dependency_is_understood(server):
    server.says["/readyz"] = (503, {"status": "the store does not answer"})
    assert bad(server.examined()) == {"store": "failed"}


def test_a_search_that_goes_by_words_alone_is_told_of_with_the_reason(server):
    server.says["/api/v1/search"] = (200, {"degraded": "The model is away."})
    found = server.examined()
    assert bad(found) == {"model": "warning"}
    assert "The model is away." in found["model"].says


def test_facts_that_cannot_be_embedded_are_told_of(server):
    server.says["/api/v1/stats"] = (200, STATS | {"backlog": {"failed": 3, "failure": "too odd"}})
    assert "3 facts cannot be embedded: too odd" in server.examined()["model"].says


@pytest.mark.parametrize(
    ("free", "wrong"),
    [(1 << 20, {"disk": "failed"}), (500 << 20, {"disk": "warning"}), (None, {})],
)
def test_a_disk_that_is_nearly_full_is_told_of(server, free, wrong):
    server.says["/api/v1/stats"] = (200, STATS | {"free_bytes": free})
    assert bad(server.examined()) == wrong


@pytest.mark.parametrize(
    ("free", "wrong"), [("1e+07", {"memory": "failed"}), ("8e+07", {"memory": "warning"})]
)
def test_a_machine_without_memory_is_told_of(server, free, wrong):
    server.says["/metrics"] = (200, f"{MEMORY}{free}\n")
    assert bad(server.examined()) == wrong


def test_a_token_that_reaches_little_is_no_fault_of_the_server(server):
    for path in ("/api/v1/stats", "/api/v1/search", "/metrics"):
        server.says[path] = (403, {"detail": "no"})
    assert bad(server.examined()) == {}


def test_an_answer_in_another_form_is_a_finding_and_no_crash(server):
    server.says["/api/v1/stats"] = (200, {"bytes": "many"})
    assert "unknown here" in server.examined()["disk"].says


def test_a_server_that_never_answers_is_given_up(server):
    server.peer.answers["GET"] = lambda _: server.peer.closing.wait()
    found = server.examined(timeout=2.0)
    assert bad(found) == {"server": "failed"}
    assert "within 2 seconds" in found["server"].says


@pytest.fixture
def run(server, capsys, monkeypatch):
    monkeypatch.setattr(settings, "state_folder", lambda: None)

    def run(*words):
        code = cli.main(["doctor", "--url", server.peer.url, *words])
        return code, *capsys.readouterr()

    return run


def test_people_are_told_line_by_line_and_programs_in_json(run, server):
    code, out, err = run("--token", TOKEN)
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == "All is well."
    server.says["/mcp"] = (421, {})
    code, out, _ = run("--token", TOKEN)
    assert code == 1
    assert "cure:" in out
    assert "Not well: allow-list." in out
    code, out, _ = run("--token", TOKEN, "--json")
    told = json.loads(out)
    assert (code, told["well"], len(told["findings"])) == (1, False, len(CHECKS))
    assert {it["check"]: it["state"] for it in told["findings"]}["allow-list"] == "failed"


def test_a_token_file_that_is_not_there_is_a_finding(run, tmp_path):
    code, out, _ = run("--token-file", str(tmp_path / "none"))
    assert code == 1
    assert "cannot be read" in out
    assert TOKEN not in out


def test_what_a_server_says_cannot_command_the_terminal(run, server):
    server.says["/api/v1/version"] = (401, {"error": {"message": "\x1b[2Jgone"}})
    assert "\x1b" not in run("--token", TOKEN)[1]


def test_what_it_cannot_examine_is_a_wrong_usage(run, tmp_path):
    assert run("--db", str(tmp_path / "memory.db"))[0] == 2
    assert cli.main(["doctor", "--url", "ftp://x"]) == 2
