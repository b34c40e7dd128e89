"""The compose files promise every service the same hardening, before any engine reads them."""

import json
import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "infra" / "compose"
LEAN = yaml.safe_load((COMPOSE / "compose.yaml").read_text(encoding="utf-8"))
EXTENDED = yaml.safe_load((COMPOSE / "compose.extended.yaml").read_text(encoding="utf-8"))
FUNNEL = yaml.safe_load((COMPOSE / "compose.funnel.yaml").read_text(encoding="utf-8"))
DOCKERFILE = (COMPOSE / "Dockerfile").read_text(encoding="utf-8")
SERVICES = LEAN["services"] | {
    "postgres": EXTENDED["services"]["postgres"],
    "tailscale": FUNNEL["services"]["tailscale"],
}
PINNED = re.compile(r"\$\{[A-Z_]+:-[a-z0-9./-]+:[a-z0-9.-]+@sha256:[0-9a-f]{64}\}")


@pytest.fixture(params=SERVICES)
def service(request):
    return SERVICES[request.param]


def test_every_service_is_hardened(service):
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    # The sidecar's image has no user but root, from whom all rights are taken.
    assert service is SERVICES["tailscale"] or service["user"] not in ("root", "0")
    assert service["pids_limit"]
    assert "privileged" not in service
    assert "cap_add" not in service


def test_every_service_is_bounded_watched_and_ended_in_time(service):
    assert re.fullmatch(r"\$\{[A-Z]+_MEMORY:-\d+m\}", service["mem_limit"])
    assert set(service["logging"]["options"]) == {"max-size", "max-file"}
    assert service["healthcheck"]["test"]
    assert service["stop_grace_period"]
    assert service["restart"] == "unless-stopped"


def test_the_lean_stack_fits_a_small_machine():
    limits = [int(re.search(r"(\d+)m", each["mem_limit"])[1]) for each in LEAN["services"].values()]
    assert len(limits) == 4
    assert sum(limits) <= 700


def test_only_the_gateway_publishes_a_port_and_on_loopback():
    published = {name: each["ports"] for name, each in SERVICES.items() if "ports" in each}
    assert list(published) == ["gateway"]
    assert all(port.startswith("127.0.0.1:") for port in published["gateway"])


def test_only_the_gateway_is_on_another_network_than_the_inner_one():
    assert LEAN["networks"]["inside"] == {"internal": True}
    others = {name for name, each in SERVICES.items() if set(each["networks"]) != {"inside"}}
    assert others == {"gateway", "tailscale"}


def test_only_the_gateway_is_reached_by_the_sidecar_and_believes_it_alone():
    assert set(SERVICES["tailscale"]["networks"]) == {"funnel", "outside"}
    assert FUNNEL["networks"]["funnel"]["internal"]
    assert set(FUNNEL["services"]) == {"gateway", "tailscale"}
    address = SERVICES["tailscale"]["networks"]["funnel"]["ipv4_address"]
    trusted = FUNNEL["services"]["gateway"]["environment"]["MCP_TRUSTED_PROXIES"]
    assert trusted == f"${{MCP_TRUSTED_PROXIES:-}},{address}"


def test_funnel_serves_the_gateway_and_at_443_alone():
    serve = json.loads((COMPOSE / "funnel" / "serve.json").read_text(encoding="utf-8"))
    name = "${TS_CERT_DOMAIN}:443"
    assert serve == {
        "TCP": {"443": {"HTTPS": True}},
        "Web": {name: {"Handlers": {"/": {"Proxy": "http://gateway:8000"}}}},
        "AllowFunnel": {name: True},
    }


def test_images_of_others_are_pinned_and_can_be_replaced():
    others = [each["image"] for each in SERVICES.values() if "build" not in each]
    base = LEAN["x-build"]["args"]["PYTHON_IMAGE"]
    assert len(others) == 3
    assert [image for image in (*others, base) if not PINNED.fullmatch(image)] == []
    assert f"ARG PYTHON_IMAGE={base.partition(':-')[2].removesuffix('}')}\n" in DOCKERFILE


def test_no_secret_stands_in_the_environment(service):
    names = service.get("environment", {})
    secret = [name for name in names if re.search("TOKEN|SECRET|PASSWORD|DATABASE_URL", name)]
    assert [name for name in secret if not name.endswith("_FILE")] == []


def test_every_service_of_ours_has_a_target_in_the_dockerfile():
    targets = set(re.findall(r"^FROM \S+ AS (\S+)$", DOCKERFILE, re.MULTILINE))
    built = {name for name, each in SERVICES.items() if "build" in each}
    assert built == {"gateway", "store", "embedder"}
    assert built <= targets


def test_the_version_of_the_images_is_the_products():
    version = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[
        1
    ]
    assert f"ARG VERSION={version}\n" in DOCKERFILE
    assert {
        each["image"].partition(":-")[2].rpartition(":-")[2]
        for each in SERVICES.values()
        if "build" in each
    } == {f"{version}}}"}
