"""The subcommands that talk to a memory: each a tool, its arguments and how to show its answer."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memory_bridge.output import Screen

Answer = dict[str, Any]


@dataclass(frozen=True)
class Command:
    """`found` says whether the answer holds anything; `pages` names the list in a paged answer.

    Only a command that `creates` may be given a database file that does not exist yet.
    """

    name: str
    tool: str
    help: str
    options: Callable[[ArgumentParser], None]
    arguments: Callable[[Namespace], Answer]
    show: Callable[["Screen", Answer, Namespace], None]
    found: Callable[[Answer], bool] = lambda _answer: True
    pages: str | None = None
    creates: bool = False


def paging(parser: ArgumentParser) -> None:
    parser.add_argument("--limit", type=int, metavar="N", help="at most N in this answer")
    parser.add_argument("--cursor", metavar="C", help="go on where another answer ended")
    parser.add_argument("--all", action="store_true", help="every page, one after the other")


def narrowing(parser: ArgumentParser) -> None:
    parser.add_argument("--prefix", metavar="P", help="only keys that begin with P")
    parser.add_argument(
        "--tag", action="append", dest="tags", metavar="T", help="only with this tag; repeatable"
    )


def when(time: str) -> str:
    """Returns the time, which is UTC, to the second and as people write it."""
    return time[:19].replace("T", " ")


def show_rest(screen: "Screen", answer: Answer) -> None:
    if cursor := answer.get("next_cursor"):
        screen.note(f"There is more: --cursor {cursor}")
