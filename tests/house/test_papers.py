"""What the papers beside the README name is what there is."""

import re
from pathlib import Path

from memory_bridge import cli
from memory_bridge.commands import operations

ROOT = Path(__file__).parents[2]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_the_changelog_names_every_command():
    named = re.findall(r"`(?:memory-bridge )?([a-z-]+)`", CHANGELOG)
    commands = [command.name for command in (*cli.COMMANDS, *operations.OPERATIONS)]
    assert [command for command in commands if command not in named] == []


def test_the_layout_shows_folders_that_exist():
    folders = re.findall(r"^([a-z_/]+/) {2,}", CONTRIBUTING, re.MULTILINE)
    assert len(folders) == 6
    assert [folder for folder in folders if not (ROOT / folder).is_dir()] == []


def test_the_layout_names_every_page_of_the_docs():
    pages = sorted(path.name for path in (ROOT / "docs").iterdir())
    assert [page for page in pages if page not in CONTRIBUTING] == []
