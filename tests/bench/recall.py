"""How well search finds the turns of LoCoMo conversations that answer its questions.

`recall.py DATA` stores every turn as a fact and asks every question in each mode. Recall@k is the
share of a question's evidence among the first k, MRR one over the rank of the first of it.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from locomo import CATEGORIES, BadData, Conversation, read
from served import CannotMeasure, Served, served_on

from memory_bridge.client import ClientError

MODES = ("hybrid", "lexical", "semantic")
DEPTHS = (1, 5, 10, 20)
ANSWERABLE = (1, 2, 3, 4)
GROUPS = {
    **{name: (number,) for number, name in CATEGORIES.items()},
    "categories 1-4": ANSWERABLE,
    "all": tuple(CATEGORIES),
}

Scores = dict[str, float]


@dataclass(frozen=True)
class Answer:
    """One question in one mode: the places of its evidence, first of all 0, and how much of it."""

    category: int
    mode: str
    places: tuple[int, ...]
    evidence: int

    def scores(self) -> Scores:
        found = {
            f"R@{depth}": sum(place < depth for place in self.places) / self.evidence
            for depth in DEPTHS
        }
        return found | {"MRR": 1 / (1 + min(self.places)) if self.places else 0.0}


def measure(
    conversations: Iterable[Conversation],
    modes: tuple[str, ...],
    limit: int | None,
    address: str | None = None,
) -> dict[str, Any]:
    """Returns group → `questions` and mode → scores."""
    with served_on(address) as memory:
        for conversation in conversations:
            memory.remember(conversation.turns, conversation.name)
        memory.wait_until_embedded()
        answers = [
            answer
            for conversation in conversations
            for answer in _ask(memory, conversation, modes, limit)
        ]
    return {name: _summary(answers, modes, group) for name, group in GROUPS.items()}


def _ask(
    memory: Served, conversation: Conversation, modes: tuple[str, ...], limit: int | None
) -> Iterator[Answer]:
    for question in conversation.questions[:limit]:
        for mode in modes:
            found = memory.search(question.text, mode, max(DEPTHS), conversation.name)
            places = tuple(found.index(turn) for turn in question.evidence if turn in found)
            yield Answer(question.category, mode, places, len(question.evidence))


def _summary(
    answers: list[Answer], modes: tuple[str, ...], group: tuple[int, ...]
) -> dict[str, Any]:
    asked = [answer for answer in answers if answer.category in group]
    summary: dict[str, Any] = {"questions": len(asked) // len(modes)}
    for mode in modes:
        scores = [answer.scores() for answer in asked if answer.mode == mode]
        if scores:
            summary[mode] = {name: fmean(score[name] for score in scores) for name in scores[0]}
    return summary


def table(results: dict[str, Any], modes: tuple[str, ...]) -> str:
    columns = [*(f"R@{depth}" for depth in DEPTHS), "MRR"]
    names = "".join(f"{name:>6}" for name in columns)
    lines = [
        " " * 22 + "".join(f"  | {mode:^{len(names)}}" for mode in modes),
        f"{'category':15}{'asked':>7}" + f"  | {names}" * len(modes),
    ]
    for group, summary in results.items():
        cells = "".join(f"  | {_cells(summary.get(mode), columns)}" for mode in modes)
        lines.append(f"{group:15}{summary['questions']:7}{cells}")
    return "\n".join(lines)


def _cells(scores: Scores | None, columns: list[str]) -> str:
    if scores is None:
        return f"{'-':>6}" * len(columns)
    return "".join(f"{scores[name]:6.3f}" for name in columns)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="recall.py", description=__doc__)
    parser.add_argument("data", type=Path, metavar="DATA", help="a file of LoCoMo conversations")
    parser.add_argument("--mode", choices=[*MODES, "all"], default="all")
    parser.add_argument(
        "--limit-questions", type=int, metavar="N", help="ask N of each conversation's questions"
    )
    parser.add_argument(
        "--database-url", metavar="URL", help="an empty Postgres database in place of a new file"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the scores there too")
    return parser.parse_args()


def main() -> int:
    arguments = _arguments()
    modes = MODES if arguments.mode == "all" else (arguments.mode,)
    try:
        results = measure(
            read(arguments.data), modes, arguments.limit_questions, arguments.database_url
        )
    except (BadData, CannotMeasure, ClientError) as error:
        sys.stderr.write(f"recall.py: {error}\n")
        return 1
    print(table(results, modes))
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
