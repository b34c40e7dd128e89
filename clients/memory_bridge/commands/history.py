"""History: who changed what, and when."""

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from memory_bridge.commands import Answer, Command, paging, show_rest
from memory_bridge.commands.events import KEY, show_events

if TYPE_CHECKING:
    from memory_bridge.output import Screen


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("key", metavar="KEY", nargs="?", help="of this key only")
    parser.add_argument("--reads", action="store_true", help="gets, lists and searches too")
    paging(parser)


def _show(screen: "Screen", answer: Answer, options: Namespace) -> None:
    if not answer["events"]:
        screen.note("There are no such events.")
        return
    # The key that was asked for would only take the room of what changed.
    show_events(screen, answer["events"], without=(KEY,) if options.key else ())
    show_rest(screen, answer)


COMMANDS = (
    Command(
        name="history",
        tool="memory_history",
        help="who changed what, newest first",
        options=_options,
        arguments=lambda options: {
            "key": options.key,
            "include_reads": options.reads or None,
            "limit": options.limit,
            "cursor": options.cursor,
        },
        show=_show,
        found=lambda answer: bool(answer["events"]),
        pages="events",
    ),
)
