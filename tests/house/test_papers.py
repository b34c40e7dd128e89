"""What the papers beside the README name is what there is."""

import re
from pathlib import Path

from memory_bridge import cli
from memory_bridge.commands import operations

ROOT = Path(__file__).parents[2]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
CHECKLIST = (ROOT / "docs/checklist.md").read_text(encoding="utf-8")
DECISIONS = (ROOT / "docs/decisions.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_the_changelog_names_every_command():
    named = re.findall(r"`(?:memory-bridge )?([a-z-]+)`", CHANGELOG)
    commands = [command.name for command in (*cli.COMMANDS, *operations.OPERATIONS, *cli.PROGRAMS)]
    assert [command for command in commands if command not in named] == []


def test_the_layout_shows_folders_that_exist():
    folders = re.findall(r"^([a-z_/]+/) {2,}", CONTRIBUTING, re.MULTILINE)
    assert len(folders) == 10
    assert [folder for folder in folders if not (ROOT / folder).is_dir()] == []


def test_the_layout_names_every_page_of_the_docs():
    pages = sorted(path.name for path in (ROOT / "docs").iterdir())
    assert [page for page in pages if page not in CONTRIBUTING] == []


def test_every_row_of_the_checklist_is_shown_by_a_test_or_an_answer_that_is_there():
    rows = re.findall(r"^\| \d+ \|.*$", CHECKLIST, re.MULTILINE)
    assert [int(row.split("|")[1]) for row in rows] == [*range(1, 28)]
    assert [row for row in rows if "::" not in row and '"' not in row] == []
    for row in rows:
        for path, name in re.findall(r"`(\S+\.py)::(\w+)`", row):
            assert f"def {name}(" in (ROOT / "tests" / path).read_text(encoding="utf-8"), name
        for heading in re.findall(r'"([^"]+)"', row):
            assert f"\n### {heading}\n" in DECISIONS, heading
