"""What the papers link to is there: the file, and the heading in it."""

import re
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAPERS = sorted(
    chain(ROOT.glob("*.md"), (ROOT / "docs").glob("*.md"), (ROOT / "infra").rglob("README.md"))
)
LINK = re.compile(r"\]\((?!\w+://|mailto:)([^)\s]+)\)")
BLOCK = re.compile(r"```.*?```", re.DOTALL)


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", BLOCK.sub("", page.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\s-]", "", text.strip().lower()).replace(" ", "-") for text in headings}


def dead_links(page: Path) -> list[str]:
    dead = []
    for link in LINK.findall(BLOCK.sub("", page.read_text("utf-8"))):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        is_dead = not target.exists() or (anchor and anchor not in anchors(target))
        dead += [link] if is_dead else []
    return dead


@pytest.mark.parametrize("page", PAPERS, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_paper_links_to_is_there(page):
    assert dead_links(page) == []


def test_a_dead_link_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# One, two\n[a](#one-two) [b](#three) [c](page.md#one-two) [d](none.md)\n")
    assert dead_links(page) == ["#three", "none.md"]
