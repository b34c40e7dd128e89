"""What an experiment came to, and how it is shown at a terminal and on a page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TEMPLATE = Path(__file__).with_name("page.md")
HEAD = "| experiment | expected | measured | holds |\n|---|---|---|---|"


@dataclass(frozen=True)
class Finding:
    """`by_hand` are the commands with which a reader tries the same."""

    subject: str
    expected: str
    found: str
    holds: bool
    by_hand: str

    @property
    def verdict(self) -> str:
        return "yes" if self.holds else "NO"


@dataclass(frozen=True)
class Sizes:
    """How much of everything: overwritten values each way, writes of each of two clients, facts,
    and calls of each tool that are timed."""

    overwrites: int = 20
    writes: int = 1_250
    facts: int = 200
    calls: int = 200


class ExperimentError(Exception):
    """There is nothing to show; the message is a sentence."""


def table(findings: Sequence[Finding]) -> str:
    """Returns a paragraph for each: what was found is too long for a column of a terminal."""
    return "\n\n".join(
        f"{found.subject}\n  expected  {found.expected}\n  found     {found.found}"
        f"\n  holds     {found.verdict}"
        for found in findings
    )


def page(findings: Sequence[Finding], machine: Mapping[str, Any]) -> str:
    rows = [
        f"| {found.subject} | {found.expected} | {found.found} | {found.verdict} |"
        for found in findings
    ]
    recipes = [f"**{found.subject}**\n\n```sh\n{found.by_hand}\n```" for found in findings]
    return TEMPLATE.read_text("utf-8").format(
        table="\n".join([HEAD, *rows]),
        machine="\n".join(f"- {name}: {_told(value)}" for name, value in machine.items()),
        by_hand="\n\n".join(recipes),
    )


def _told(value: Any) -> str:
    """The load is three numbers."""
    return ", ".join(f"{it:.1f}" for it in value) if isinstance(value, tuple) else f"{value}"
