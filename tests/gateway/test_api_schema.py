"""What the OpenAPI document promises is kept, whatever is asked."""

import json
import os
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from gateway_serving import AUTHORIZED, TOKEN, environment, http_server
from http_interface import API, client, set_fact

HERE = Path(__file__).parent
EXAMPLE = "deploy/db-port"
PLENTY = {"MCP_RATE_PER_SECOND": "1000000", "MCP_RATE_BURST": "1000000"}
DOOR = {"401", "403", "405", "421", "422", "429", "500", "503"}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("schema")
    with http_server(folder / "memory.db", **PLENTY) as server:
        yield server


@pytest.fixture(scope="module")
def document(served):
    with client(served.url) as web:
        return web.get("/openapi.json").json()


def schemathesis(url, *options, cwd):
    hooks = {"SCHEMATHESIS_HOOKS": "schemathesis_hooks", "PYTHONPATH": str(HERE)}
    return subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli"),
            *("--config-file", HERE / "schemathesis.toml", "run", url, "--no-color"),
            *("-H", f"Authorization: Bearer {TOKEN}", "--exclude-operation-id", "follow_events"),
            *("--seed", "7", "--generation-database", "none", *options),
        ],
        cwd=cwd,
        env=environment() | hooks | {"COLUMNS": "200", "HOME": os.environ["HOME"]},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.timeout(3600)
def test_schemathesis_finds_no_fault_in_any_phase(served, tmp_path, request):
    examples = request.config.getoption("--api-examples")
    with client(served.url) as web:
        for value in ("1", "2", "3", "5432"):  # so that what the document shows is there
            set_fact(web, EXAMPLE, value)
    url = served.url.removesuffix("/mcp") + f"{API}/openapi.json"
    ran = schemathesis(url, "--max-examples", str(examples), cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    for phase in ("Examples", "Coverage", "Fuzzing", "Stateful"):
        assert f"✅  {phase}" in ran.stdout
    assert "Traceback" not in "".join(served.errors)
    with client(served.url) as web:
        assert web.get("/version").status_code == 200


def test_every_operation_declares_what_the_door_and_the_memory_may_answer(document):
    operations = [it for path in document["paths"].values() for it in path.values()]
    assert len(operations) == len({operation["operationId"] for operation in operations})
    for operation in operations:
        assert operation["responses"].keys() >= DOOR
        if "requestBody" in operation:
            assert operation["responses"].keys() >= {"408", "413", "415"}
    assert document["security"] == [{"bearer": []}]
    assert document["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"


def test_every_error_is_declared_as_a_problem(document):
    for response in document["components"]["responses"].values():
        (content,) = response["content"]
        assert content == "application/problem+json"
    shown = json.dumps(document)
    assert "HTTPValidationError" not in shown
    assert "$defs" not in shown


def test_the_document_is_for_those_alone_who_may_come_in(served):
    address = served.url.removesuffix("/mcp") + f"{API}/openapi.json"
    assert httpx2.get(address).status_code == 401
    assert httpx2.get(address, headers=AUTHORIZED).json()["openapi"].startswith("3.1")
