"""The public LoCoMo benchmark's files: conversations, and questions with the turns that answer."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CATEGORIES = {
    1: "multi-hop",
    2: "temporal",
    3: "open-domain",
    4: "single-hop",
    5: "adversarial",
}
_SESSION = re.compile(r"session_\d+")
_TURN = re.compile(r"D:?\s*(\d+)\s*:\s*(\d+)")


class BadData(Exception):
    """The file cannot be used. The message is a sentence."""


@dataclass(frozen=True)
class Question:
    text: str
    category: int
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class Conversation:
    """`turns` are texts by their id; every question has evidence among them."""

    name: str
    turns: dict[str, str]
    questions: list[Question]


def read(path: Path) -> list[Conversation]:
    """Returns at least one. Raises `BadData`."""
    try:
        return _conversations(path.read_text("utf-8"))
    except OSError as error:
        raise BadData(f"{path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise BadData(
            f"{path} is not a LoCoMo file, which is a JSON list of samples with `sample_id`,"
            f" `conversation` and `qa`: {error!r}."
        ) from error


def evidence_ids(given: list[str]) -> tuple[str, ...]:
    """Ids of turns; several in one string, `D:11:26` and `D30:05` occur in the published file."""
    found = (match for text in given for match in _TURN.finditer(text))
    return tuple(dict.fromkeys(f"D{int(match[1])}:{int(match[2])}" for match in found))


def _conversations(text: str) -> list[Conversation]:
    samples = json.loads(text)
    if not samples:
        raise ValueError("there is no sample")
    return [_conversation(sample) for sample in samples]


def _conversation(sample: dict[str, Any]) -> Conversation:
    turns = dict(_turns(sample["conversation"]))
    questions = [_question(asked, turns) for asked in sample["qa"]]
    return Conversation(
        sample["sample_id"], turns, [question for question in questions if question.evidence]
    )


def _turns(conversation: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for session in filter(_SESSION.fullmatch, conversation):
        date = conversation[f"{session}_date_time"]
        for turn in conversation[session]:
            caption = turn.get("blip_caption")
            shared = f" [shares {caption}]" if caption else ""
            yield turn["dia_id"], f"[{date}] {turn['speaker']}: {turn['text']}{shared}"


def _question(asked: dict[str, Any], turns: dict[str, str]) -> Question:
    evidence = evidence_ids(asked.get("evidence") or [])
    known = tuple(turn for turn in evidence if turn in turns)
    return Question(asked["question"], asked["category"], known)
