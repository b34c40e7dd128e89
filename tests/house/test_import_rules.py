"""Each import rule breaks when it is violated, and only that one."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = {
    "memory_bridge": "clients",
    "memory_store": "services/store",
    "memory_embedder": "services/embedder",
    "memory_gateway": "services/gateway",
}

BASE = "The base package needs the standard library only"
STORE_WORDS = "The store's contract knows pydantic and no technology"
EMBEDDER_WORDS = "The embedder's contract knows the store's words and no technology"
STORE = "The store knows none of the others"
EMBEDDER = "The embedder knows the store by its contract and its client"
GATEWAY = "The gateway knows the store and the embedder by their contracts and clients"
ENGINES = "Only the opening of a store chooses a database"
OPENING = "Only what wires opens a store"
WIRING = "Nothing imports what wires"

VIOLATIONS = [
    ("memory_bridge.client", "pydantic", BASE),
    ("memory_bridge.cli", "memory_store.contract", BASE),
    ("memory_store.contract", "numpy", STORE_WORDS),
    ("memory_store.contract", "memory_store.engine", STORE_WORDS),
    ("memory_store.vocabulary", "httpx2", STORE_WORDS),
    ("memory_embedder.contract", "numpy", EMBEDDER_WORDS),
    ("memory_store.facts", "memory_embedder.contract", STORE),
    ("memory_embedder.drain", "memory_store.facts", EMBEDDER),
    ("memory_gateway.api", "memory_store.store", GATEWAY),
    ("memory_gateway.tools.facts", "memory_embedder.drain", GATEWAY),
    ("memory_store.facts", "memory_store.sqlite", ENGINES),
    ("memory_store.search", "memory_store.sqlite.text", ENGINES),
    ("memory_store.operations.check", "memory_store.sqlite.copies", ENGINES),
    ("memory_store.store", "memory_store.opening", OPENING),
    ("memory_store.operations.export", "memory_store.opening", OPENING),
    ("memory_gateway.app", "memory_gateway.main", WIRING),
    ("memory_gateway.app", "memory_gateway.embedded", WIRING),
    ("memory_gateway.app", "memory_gateway.remote", WIRING),
    ("memory_gateway.app", "memory_gateway.embedding", WIRING),
    ("memory_store.server", "memory_store.main", WIRING),
    ("memory_store.server", "memory_store.operations.main", WIRING),
]


@pytest.fixture
def house(tmp_path):
    for folder in FOLDERS.values():
        shutil.copytree(
            ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "tests/house").mkdir(parents=True)
    shutil.copy(Path(__file__).with_name("may_import.py"), tmp_path / "tests/house")
    return tmp_path


def lint(house):
    """Returns the names of the contracts that are kept and of those that are broken."""
    paths = os.pathsep.join(str(house / folder) for folder in FOLDERS.values())
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--no-logo"],
        cwd=house,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": paths, "NO_COLOR": "1", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    verdicts = dict(re.findall(r"^(.+) (KEPT|BROKEN)", done.stdout, re.MULTILINE))
    assert verdicts, done.stdout + done.stderr
    broken = {name for name, verdict in verdicts.items() if verdict == "BROKEN"}
    assert (done.returncode != 0) == bool(broken)
    return set(verdicts) - broken, broken


def violate(house, importer, imported):
    package, _, rest = importer.partition(".")
    module = house / FOLDERS[package] / package / f"{rest.replace('.', '/')}.py"
    with module.open("a") as source:
        source.write(f"\nimport {imported}\n")


def test_the_house_keeps_its_rules(house):
    kept, broken = lint(house)
    assert not broken
    assert kept == {rule for _, _, rule in VIOLATIONS}


@pytest.mark.parametrize(("importer", "imported", "rule"), VIOLATIONS)
def test_a_violation_breaks_its_rule(house, importer, imported, rule):
    violate(house, importer, imported)
    _, broken = lint(house)
    assert broken == {rule}
