"""Search: facts by meaning and by word."""

import re
from argparse import ArgumentParser, Namespace
from functools import partial
from typing import TYPE_CHECKING

from memory_bridge.arguments import number
from memory_bridge.commands import Answer, Command, narrowing
from memory_bridge.excerpts import excerpt, place_of

if TYPE_CHECKING:
    from memory_bridge.output import Screen


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("query", metavar="QUERY")
    parser.add_argument("--top-k", type=int, metavar="N", help="the best N")
    parser.add_argument("--mode", metavar="M", help="hybrid, semantic or lexical")
    parser.add_argument("--min-score", type=number, metavar="S", help="from this score on, 0 to 1")
    narrowing(parser)


def _show(screen: "Screen", answer: Answer, options: Namespace) -> None:
    if reason := answer.get("degraded"):
        screen.note(f"Ranked by words only: {reason}")
    elif pending := answer.get("pending"):
        screen.note(_pending(pending))
    words = re.findall(r"\w+", options.query)
    rows = [
        (
            f"{hit['score']:.3f}",
            hit["fact"]["key"],
            partial(excerpt, hit["fact"]["value"], start=place_of(words, hit["fact"]["value"])),
        )
        for hit in answer["hits"]
    ]
    if rows:
        screen.table(rows, ("SCORE", "KEY", "VALUE"))
    else:
        screen.note("Nothing was found.")


def _pending(count: int) -> str:
    """Why something written a moment ago may be missing."""
    facts = "1 fact is" if count == 1 else f"{count} facts are"
    return f"{facts} not yet findable by meaning, only by words; that takes a moment."


COMMANDS = (
    Command(
        name="search",
        tool="memory_search",
        help="find facts by meaning, not only by key",
        options=_options,
        arguments=lambda options: {
            "query": options.query,
            "top_k": options.top_k,
            "mode": options.mode,
            "min_score": options.min_score,
            "prefix": options.prefix,
            "tags": options.tags,
        },
        show=_show,
        found=lambda answer: bool(answer["hits"]),
    ),
)
