"""What the papers say of the HTTP interface is what there is."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from gateway_serving import TOKEN, http_server
from http_interface import API, client
from memory_gateway.problems import KINDS
from memory_store.contract import ERRORS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "http.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with http_server(tmp_path_factory.mktemp("page") / "memory.db") as server:
        yield server


def test_the_page_names_every_address_with_its_methods(served):
    with client(served.url) as web:
        paths = web.get("/openapi.json").json()["paths"]
    named = {}
    for cell, methods in re.findall(r"^\| (`/.+?) \| ([A-Z, and]+) \|", PAGE, re.MULTILINE):
        for path in re.findall(r"`(/[^`?]+)", cell):
            named.setdefault(f"{API}{path}", methods)
    assert named.keys() == paths.keys()
    for path, operations in paths.items():
        assert all(method.upper() in named[path] for method in operations), path


def test_the_page_names_every_code():
    named = set(re.findall(r"`([a-z_]+)`", PAGE.partition("## Errors")[2]))
    assert {*(kind.code for kind in KINDS.values()), *ERRORS} - named == set()


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl to try the lines with")
def test_the_lines_of_the_page_work_as_they_stand(served):
    (lines,) = re.findall(r"^```sh\n(export AUTH=.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    script = lines.replace("http://127.0.0.1:8000/api/v1", served.url.removesuffix("/mcp") + API)
    ran = subprocess.run(
        ["sh", "-ec", script.replace("curl ", "curl -sSw '\\n' ")],
        env=os.environ | {"MEMORY_BRIDGE_TOKEN": TOKEN},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    first, second, found = map(json.loads, ran.stdout.splitlines())
    assert (first["version"], second["version"], second["value"]) == (1, 2, "5433")
    assert found["hits"][0]["fact"]["value"] == "5433"
