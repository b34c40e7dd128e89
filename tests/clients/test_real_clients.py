"""Real clients on a real gateway: what they do every day, and when the gateway restarts."""

import importlib.metadata
import json
import re
from concurrent import futures
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from clients.real_cases import ANSWERED, CASES, DEAF, FAILS, LOST, WAITS
from clients.real_client import SECONDS, Failed, RealClient
from clients.restarting_gateway import RestartingGateway
from gateway_serving import AUTHORIZED, TOKEN
from http_interface import client as web_client
from http_interface import set_fact
from lock_holder import lock_held
from node_clients import FOLDER
from waiting import wait_until

pytest.importorskip("memory_gateway.main", reason="needs the extra `server`")

pytestmark = pytest.mark.timeout(600)
WRONG = "a-token-of-nobody-0123456789"
REFUSED = re.compile(r"401|bearer token is not valid")
SOON = 10.0
PAGE = (Path(__file__).parents[2] / "docs" / "compatibility.md").read_text("utf-8")
OVER_HTTP = ("http", "our stub", "mcp-remote")


class Everyone:
    """All the clients, which do the same at the same time, on one gateway and one file."""

    def __init__(self, gateway):
        self.gateway = gateway
        self.web = web_client(gateway.url)
        installed = [case for case in CASES if case.is_installed]
        self.clients = {case: RealClient(case.program) for case in installed}
        guests = [case for case in installed if case.proves_who_it_is]
        self.refusals = self._connect(guests, WRONG)
        self.versions = self.connect()

    def connect(self):
        return self._connect(self.clients, TOKEN)

    def _connect(self, cases, token):
        return self.have(
            cases, lambda case, it: it.begin("connect", **case.target(self.gateway, token))
        )

    def have(self, cases, begin):
        """What came of it for each: a result or a `Failed`."""
        begun = {case: begin(case, self.clients[case]) for case in cases}
        return {case: outcome(asked) for case, asked in begun.items()}

    def subscribe(self, cases, place):
        self.have(cases, lambda case, it: it.begin("subscribe", uri=uri(case, place)))

    def write(self, case, place):
        """Somebody else writes."""
        assert set_fact(self.web, f"{place}-{case.number}", "v").is_success

    def close(self):
        self.web.close()
        for client in self.clients.values():
            client.close()


def outcome(asked):
    try:
        return asked.result(SECONDS)
    except Failed as failure:
        return failure


def uri(case, place):
    return f"memory://default/{place}-{case.number}"


@pytest.fixture(scope="module")
def everyone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gateway")
    patient = RestartingGateway(folder, MCP_SQLITE_BUSY_TIMEOUT="60000")
    with patient.running() as gateway, closing(Everyone(gateway)) as everyone:
        yield everyone


@pytest.fixture(params=CASES, ids=str)
def case(request):
    assert request.param.program  # or it is skipped
    return request.param


@pytest.fixture
def client(everyone, case):
    return everyone.clients[case]


def test_it_agrees_on_a_protocol_and_lists_the_tools(everyone, case, client):
    assert everyone.versions[case] == case.protocol, "".join(client.errors)
    assert {"memory_set", "memory_get", "memory_search"} <= set(client.do("tools"))


def test_it_writes_reads_and_finds(case, client):
    key, value = f"daily-{case.number}", f"written by number{case.number}"
    written = client.call("memory_set", key=key, value=value)
    read = client.call("memory_get", key=key)
    found = client.call("memory_search", query=f"number{case.number}")
    assert (written["fact"]["version"], read["fact"]["value"]) == (1, value)
    assert found["hits"][0]["fact"]["key"] == key


def test_it_reads_a_resource_and_has_a_key_completed(everyone, case, client):
    everyone.write(case, "resource")
    assert client.do("read", uri=uri(case, "resource")) == "v"
    assert f"resource-{case.number}" in client.do("complete", value="resource-")


def test_it_hears_of_what_another_client_writes(everyone, case, client):
    client.do("subscribe", uri=uri(case, "heard"))
    everyone.write(case, "heard")
    assert client.hears_of(uri(case, "heard"))


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.proves_who_it_is], ids=str, indirect=True
)
def test_a_wrong_token_is_told_clearly(everyone, case, client):
    told = everyone.refusals[case]
    assert isinstance(told, Failed)
    assert REFUSED.search(f"{told} {''.join(client.errors)}")


@dataclass
class Restart:
    """`calls` is what came of each client's call, `anew` of connecting again."""

    calls: dict
    anew: dict
    hearing: tuple = ()


@pytest.fixture(scope="module")
def restart(everyone):
    """The gateway is stopped in mid-session, and started again."""
    place = "restarted"
    everyone.subscribe(everyone.clients, place)
    everyone.gateway.stop()
    everyone.gateway.start()
    calls = everyone.have(
        everyone.clients, lambda _case, it: it.begin_call("memory_get", key="none")
    )
    going = [case for case, answer in calls.items() if not isinstance(answer, Failed)]
    everyone.subscribe([case for case in going if case.restarted == DEAF], place)
    for case in going:
        everyone.write(case, place)
    hearing = [case for case in going if everyone.clients[case].hears_of(uri(case, place))]
    return Restart(calls, everyone.connect(), hearing)


def test_after_a_restart_it_goes_on_or_says_that_it_cannot(restart, case):
    assert isinstance(restart.calls[case], Failed) == (case.restarted == LOST), restart.calls[case]
    assert (case in restart.hearing) == (case.restarted != LOST)
    assert restart.anew[case] == case.protocol


@pytest.fixture(scope="module")
def kill(everyone):
    """The gateway is killed while a write of each client waits, and started again."""
    with lock_held(everyone.gateway.database) as release:
        calls = {
            case: client.begin_call("memory_set", key=f"killed-{case.number}", value="v")
            for case, client in everyone.clients.items()
        }
        over_http = sum(case.transport in OVER_HTTP for case in calls)
        wait_until(lambda: in_flight(everyone.gateway) >= over_http, seconds=SECONDS)
        everyone.gateway.kill()
        release()
    futures.wait([asked for case, asked in calls.items() if case.killed == FAILS], SOON)
    failed = {case for case, asked in calls.items() if asked.done() and asked.exception()}
    everyone.gateway.start()
    futures.wait([asked for case, asked in calls.items() if case.killed == ANSWERED], SECONDS)
    fates = {case: FAILS if case in failed else fate(asked) for case, asked in calls.items()}
    anew = everyone.connect()
    facts = everyone.have(
        everyone.clients,
        lambda case, it: it.begin_call("memory_get", key=f"killed-{case.number}"),
    )
    return Kill(fates, anew, facts)


@dataclass
class Kill:
    """`facts` is what each then finds where it wrote."""

    fates: dict
    anew: dict
    facts: dict


def fate(asked):
    """Returns what became of a call that has not failed at once."""
    if not asked.done():
        return WAITS
    return asked.exception() or ANSWERED


def in_flight(gateway):
    told = httpx2.get(gateway.url.replace("/mcp", "/metrics"), headers=AUTHORIZED).text
    return float(re.search(r"^memory_bridge_in_flight (\S+)", told, re.MULTILINE)[1])


def test_a_call_of_it_is_answered_fails_or_waits_when_the_gateway_is_killed(kill, case):
    assert kill.fates[case] == case.killed
    assert kill.anew[case] == case.protocol
    if case.killed == ANSWERED:
        assert kill.facts[case]["fact"]["version"] == 1
    else:
        assert not kill.facts[case]["found"]


def test_the_page_on_compatibility_says_what_is_tested_here():
    rows = [line for line in PAGE.splitlines() if line.startswith("|")]
    assert rows[2:] == [case.row for case in CASES]


def test_the_page_on_compatibility_names_the_versions_that_are_tested_here():
    packages = json.loads((FOLDER / "package.json").read_text("utf-8"))["dependencies"]
    del packages["@modelcontextprotocol/conformance"]
    versions = packages | {"mcp": importlib.metadata.version("mcp")}
    for package, version in versions.items():
        assert re.search(rf"`{package}`\)?\s{re.escape(version)}\b", PAGE), package
