"""What a check found, and what to do where that is not good."""

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warning", "failed", "skipped", "unseen"]


@dataclass(frozen=True)
class Finding:
    """`says` is what was seen, `cure` what to do about it; both are sentences. A check is
    `skipped` where there is nothing to see, `unseen` where what came before it failed; then its
    sentence says which."""

    state: State
    says: str
    cure: str | None = None


def ok(says: str) -> Finding:
    return Finding("ok", says)


def warning(says: str, cure: str) -> Finding:
    return Finding("warning", says, cure)


def failed(says: str, cure: str) -> Finding:
    return Finding("failed", says, cure)


def skipped(says: str) -> Finding:
    return Finding("skipped", says)
