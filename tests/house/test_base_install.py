"""The base package works alone: in a Python that holds nothing else."""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SERVER_ONLY = ["pydantic", "mcp", "numpy", "fastapi", "onnxruntime", "tokenizers"]


def run(*command, **options):
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        [str(part) for part in command],
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **options,
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    built = run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    assert built.returncode == 0, built.stderr
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def bare(wheel, tmp_path_factory):
    """The folder of commands of a bare Python into which only our wheel was installed."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, symlinks=True)
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin/python"]
    installed = run(*pip, "install", "--quiet", "--no-index", "--no-deps", wheel)
    assert installed.returncode == 0, installed.stderr
    return folder / "bin"


@pytest.mark.parametrize("name", SERVER_ONLY)
def test_no_package_of_the_server_is_there(bare, name):
    assert "ModuleNotFoundError" in run(bare / "python", "-c", f"import {name}").stderr


def test_the_command_shows_its_help(bare):
    done = run(bare / "memory-bridge", "--help")
    assert done.returncode == 0, done.stderr
    assert "serve" in done.stdout


def test_the_raw_client_can_be_imported(bare):
    done = run(bare / "python", "-c", "import memory_bridge.client")
    assert done.returncode == 0, done.stderr


def test_serving_says_which_packages_are_missing(bare):
    done = run(bare / "memory-bridge", "serve", stdin=subprocess.DEVNULL)
    assert done.returncode != 0
    assert "mcp-memory-bridge[server]" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_wheel_carries_what_is_not_python(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    for room in ("clients", "services"):
        for path in (ROOT / room).rglob("*"):
            if path.suffix in {".sql", ".typed"}:
                assert any(str(path).endswith(name) for name in names), path
