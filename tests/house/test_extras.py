"""The extras are honest: what a package imports, its extra asks for."""

import ast
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PYPROJECT["project"]["optional-dependencies"]
DISTRIBUTIONS = packages_distributions()


def imported(folder):
    for path in folder.rglob("*.py"):
        yield from imported_by(path)


def imported_by(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module


def third_party(folder):
    """The distributions that a folder's modules import from; pydantic is one with its core."""
    names = {name.split(".")[0] for name in imported(folder)} - sys.stdlib_module_names
    ours = {name for name in names if name.startswith("memory_")}
    found = {canonicalize_name(DISTRIBUTIONS[name][0]) for name in names - ours}
    return {"pydantic" if name == "pydantic-core" else name for name in found}


@pytest.mark.parametrize(
    ("service", "extras"),
    [
        ("store", ["store", "postgres"]),
        ("embedder", ["embedder", "queue", "torch"]),
        ("gateway", ["gateway", "otel"]),
    ],
)
def test_a_service_asks_for_all_that_it_imports(service, extras):
    lines = [line for extra in extras for line in EXTRAS[extra]]
    asked = {canonicalize_name(Requirement(line).name) for line in lines}
    assert third_party(ROOT / "services" / service) - asked == set()


def test_without_the_postgres_extra_only_that_engine_asks_for_its_driver():
    store = ROOT / "services" / "store" / "memory_store"
    users = {
        path for path in store.rglob("*.py") for name in imported_by(path) if "psycopg" in name
    }
    assert {path.parent.name for path in users} == {"postgres"}


def test_the_command_asks_for_nothing():
    assert PYPROJECT["project"]["dependencies"] == []
