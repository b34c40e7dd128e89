"""The official conformance suite against the product's own HTTP application, for both eras."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from gateway_serving import SECONDS, environment
from node_clients import node_command

HERE = Path(__file__).parent
SUITE_SECONDS = 110
NEEDS_NO_FIXTURE = {
    "2025-11-25": (
        "server-initialize",
        "server-session-lifecycle",
        "ping",
        "tools-list",
        "resources-list",
        "resources-subscribe",
        "resources-unsubscribe",
        "prompts-list",
        "server-sse-multiple-streams",
        "dns-rebinding-protection",
    ),
    "2026-07-28": (
        "tools-list",
        "resources-list",
        "sep-2164-resource-not-found",
        "prompts-list",
        "server-sse-multiple-streams",
        "dns-rebinding-protection",
        "caching",
        "http-header-validation",
    ),
}


@pytest.fixture
def serve(tmp_path):
    processes = []

    def start(*options):
        paths = f"{HERE.parent}"
        process = subprocess.Popen(
            [sys.executable, str(HERE / "serve.py"), str(tmp_path / "memory.db"), *options],
            stderr=subprocess.PIPE,
            text=True,
            env=environment(PYTHONPATH=paths),
        )
        processes.append(process)
        lines = iter(process.stderr.readline, "")
        return next(line.split()[-1] for line in lines if line.startswith("listening on "))

    yield start
    for process in processes:
        process.kill()
        process.wait(SECONDS)


def run_suite(tmp_path, url, *options):
    command = node_command("conformance", "server", "--url", url, "-o", str(tmp_path / "results"))
    return subprocess.run(
        [*command, *options], capture_output=True, text=True, timeout=SUITE_SECONDS, check=False
    )


@pytest.mark.parametrize("revision", NEEDS_NO_FIXTURE)
def test_all_that_a_revision_requires_passes_with_what_the_suite_wants_to_find(
    tmp_path, serve, revision
):
    node_command("conformance")
    expected = str(HERE / "expected-failures.yaml") if revision == "2026-07-28" else None
    baseline = ["--expected-failures", expected] if expected else []
    ran = run_suite(tmp_path, serve("--fixtures"), "--requirements", revision, *baseline)
    assert ran.returncode == 0, ran.stdout[-4_000:]
    assert int(re.search(r"^Total: (\d+) passed", ran.stdout, re.MULTILINE)[1]) > 75


@pytest.mark.parametrize("revision", NEEDS_NO_FIXTURE)
def test_what_needs_no_fixture_passes_on_the_product_as_it_is(tmp_path, serve, revision):
    node_command("conformance")
    url = serve()
    for scenario in NEEDS_NO_FIXTURE[revision]:
        options = ("--scenario", scenario, "--spec-version", revision)
        ran = run_suite(tmp_path, url, *options)
        assert ran.returncode == 0, f"{scenario}:\n{ran.stdout[-2_000:]}"
