"""What reaches the stack through the sidecar, and what does not."""

import json
import socket
import ssl

import httpx2
import pytest
from websockets.sync.client import connect

from event_streams import PATH, Follower
from funnel_stack import FUNNEL, RELAY, SECONDS
from gateway_serving import ACCEPT, INITIALIZE, message
from waiting import wait_until

pytestmark = [pytest.mark.containers, pytest.mark.timeout(900)]

SPOOFED = "198.51.100.77"


def write(web, key):
    response = web.put("/api/v1/fact", params={"key": key}, json={"value": "there"})
    assert response.status_code in (200, 201), response.text


def address_logged(stack, response):
    """Whom the gateway says that it answered."""
    number = response.headers["X-Request-Id"]

    def records():
        lines = stack.compose("logs", "--no-log-prefix", "--tail", "100", "gateway").splitlines()
        return [line for line in lines if f'"{number}"' in line]

    wait_until(lambda: records() != [], about=number)
    line = records()[0]
    return json.loads(line[line.index("{") :])["address"]


def test_a_client_that_knows_the_token_is_served_over_tls(served):
    with served.visitor(**ACCEPT) as web:
        answer = message(web.post("/mcp", json=INITIALIZE))
    assert answer["result"]["serverInfo"]["name"]


def test_the_certificate_is_that_of_the_public_name(served):
    with (
        pytest.raises(httpx2.ConnectError, match="certificate"),
        httpx2.Client(verify=ssl.create_default_context()) as stranger,
    ):
        stranger.get(f"https://127.0.0.1:{served.public_port}/healthz")


def test_nobody_gets_in_without_a_token(served):
    with served.visitor(Authorization="") as web:
        answers = [web.post("/mcp", json=INITIALIZE), web.get("/api/v1/stats"), web.get("/metrics")]
    assert [answer.status_code for answer in answers] == [401, 401, 401]


def test_a_host_of_another_name_is_not_served(served):
    with served.visitor(Host="elsewhere.tail0000.ts.net") as web:
        assert web.post("/mcp", json=INITIALIZE).status_code == 421


def test_what_a_visitor_says_of_its_address_is_not_believed(served):
    spoofed = {"X-Forwarded-For": SPOOFED, "X-Forwarded-Host": "elsewhere.example"}
    with served.visitor(**spoofed, **{"Tailscale-User-Login": "root@example"}) as web:
        response = web.get("/api/v1/stats")
    assert response.status_code == 200
    assert address_logged(served, response) not in (SPOOFED, f"{served.network}.2")


def test_a_neighbour_on_this_machine_is_not_taken_for_the_sidecar(stack):
    headers = {"X-Forwarded-For": SPOOFED, "Authorization": f"Bearer {stack.token}"}
    base = stack.url.removesuffix("/mcp")
    response = httpx2.get(f"{base}/api/v1/stats", headers=headers)
    assert response.status_code == 200
    assert address_logged(stack, response) != SPOOFED


def test_events_arrive_one_by_one(served):
    with served.visitor() as web, web.stream("GET", PATH) as response:
        follower = Follower(response)
        assert follower.block()[""] == "following"
        for key in ("first", "second", "third"):
            write(web, key)
            assert follower.event()["key"] == key


def test_a_websocket_is_passed_on(stack):
    stack.run_sidecar(RELAY)
    way = socket.create_connection(("127.0.0.1", stack.public_port), SECONDS)
    known = {"Authorization": f"Bearer {stack.token}"}
    with connect(
        f"wss://{FUNNEL}/ws", sock=way, ssl=stack.trust(), additional_headers=known
    ) as connection:
        connection.send(json.dumps(INITIALIZE))
        assert json.loads(connection.recv(SECONDS))["result"]["serverInfo"]["name"]


def test_the_sidecar_has_no_more_rights_than_it_needs_and_is_bounded(stack):
    container = stack.inspect("tailscale")
    host = container["HostConfig"]
    assert host["ReadonlyRootfs"]
    assert host["CapDrop"] == ["ALL"]
    assert not host["CapAdd"]
    assert not host["Privileged"]
    assert not host["Devices"]
    assert "no-new-privileges:true" in host["SecurityOpt"]
    assert host["Memory"] == 128 * 2**20
    assert container["State"]["Health"]["Status"] == "healthy"


def test_the_sidecar_reaches_the_gateway_and_nothing_else_inside(stack):
    networks = set(stack.inspect("tailscale")["NetworkSettings"]["Networks"])
    assert networks == {f"{stack.project}_funnel", f"{stack.project}_outside"}
    others = ("store", "embedder", "redis")
    assert {
        name for name in others if stack.run_in("tailscale", "getent", "hosts", name).stdout
    } == (set())


END = """
for each in /proc/[0-9]*; do
  if grep -q '^python3$' "$each/comm"; then kill -{} "${{each#/proc/}}"; fi
done
"""
HASTY = {"WATCHDOG_INTERVAL": "1", "WATCHDOG_FAILURES": "2", "WATCHDOG_TIMEOUT": "3"}


@pytest.mark.parametrize("signal", ["STOP", "KILL"])
def test_a_sidecar_that_is_stuck_or_dead_is_revived(stack, signal):
    stack.run_sidecar(RELAY, **HASTY)
    before = stack.inspect("tailscale")["State"]["StartedAt"]
    stack.run_in("tailscale", "sh", "-c", END.format(signal))
    wait_until(
        lambda: stack.inspect("tailscale")["State"]["StartedAt"] != before,
        seconds=120,
        about="a restart",
    )
    stack.wait_until_it_answers()
