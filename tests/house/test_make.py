"""The commands that people type, and the pipeline that types the same."""

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
WORKFLOW = (ROOT / ".github/workflows/ci.yaml").read_text(encoding="utf-8")
TARGETS = re.search(r"^\.PHONY: (.+)$", MAKEFILE, re.MULTILINE)[1].split()
SETUP_NEEDS = [
    "Makefile",
    "pyproject.toml",
    "requirements/dev.lock",
    *(f"services/embedder/memory_embedder/{name}.py" for name in ("prepare", "sources", "models")),
]


def make(*arguments, cwd=ROOT, **environ):
    ours = ("MAKE", "MCP_", "MFLAGS")  # what a surrounding make and the settings would add
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return subprocess.run(
        ["make", *arguments],
        cwd=cwd,
        env=kept | environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def clone(tmp_path):
    """A clone, in a folder with a space in its name, that has the files of the setup's rule."""
    folder = tmp_path / "a clone"
    for path in SETUP_NEEDS:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, folder / path)
    return folder


@pytest.fixture
def ready_clone(clone):
    """A clone that is set up, with a server that only tells its arguments and its token."""
    commands = clone / ".venv/bin"
    commands.mkdir(parents=True)
    (commands / "python").symlink_to(sys.executable)
    server = commands / "memory-bridge"
    server.write_text('#!/bin/sh\necho "$@: $(cat "$MCP_AUTH_TOKEN_FILE") $MCP_AUTH_TOKEN"\n')
    server.chmod(0o755)
    (clone / ".venv/.ready").touch()
    return clone


def served(ready_clone, **environ):
    done = make("run", cwd=ready_clone, **environ)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_make_alone_lists_every_target():
    listed = re.findall(r"^  make (\S+)", make().stdout, re.MULTILINE)
    assert listed == TARGETS


def test_another_python_is_refused_with_a_sentence(clone):
    done = make("setup", "PYTHON=false", cwd=clone)
    assert done.returncode != 0
    assert "Python 3.11 to 3.14 is needed, and false is not one" in done.stderr
    assert not (clone / ".venv").exists()


def test_run_serves_with_a_private_token_made_once(ready_clone):
    first = served(ready_clone)
    token = ready_clone / ".memory-bridge/token"
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    assert first == f"serve --http: {token.read_text().strip()} \n"
    assert served(ready_clone) == first


def test_run_takes_the_token_file_that_the_settings_name(ready_clone, tmp_path):
    token = tmp_path / "mine"
    token.write_text("my-token")
    assert "serve --http: my-token" in served(ready_clone, MCP_AUTH_TOKEN_FILE=str(token))
    assert not (ready_clone / ".memory-bridge").exists()


def test_the_pipeline_calls_make_targets_and_nothing_else():
    commands = re.findall(r"\brun: *(.+)", WORKFLOW)
    assert commands
    assert {command.removeprefix("make ") for command in commands} <= set(TARGETS)


def test_the_pipeline_pins_its_actions_by_commit():
    actions = re.findall(r"\buses: *(\S+)", WORKFLOW)
    assert actions
    assert [action for action in actions if not re.search(r"@[0-9a-f]{40}$", action)] == []
