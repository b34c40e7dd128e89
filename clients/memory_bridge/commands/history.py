"""History: who changed what, and when."""

import json
from argparse import ArgumentParser
from typing import TYPE_CHECKING

from memory_bridge.commands import Answer, Command, paging, show_rest

if TYPE_CHECKING:
    from memory_bridge.output import Screen

_ABSENT = "∅"


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("key", metavar="KEY", nargs="?", help="of this key only")
    parser.add_argument("--reads", action="store_true", help="gets, lists and searches too")
    paging(parser)


def _show(screen: "Screen", answer: Answer) -> None:
    events = answer["events"]
    if not events:
        screen.note("There are no such events.")
        return
    head = ("WHEN", "WHO", "WHAT", "KEY", "VERSION", "CHANGE")
    screen.table([_row(event) for event in events], head)
    if any(event["self_reported"] for event in events):
        screen.note("* says so itself; no token proves it")
    show_rest(screen, answer)


def _row(event: Answer) -> tuple[object, ...]:
    return (
        event["at"],
        _who(event),
        event["kind"],
        _or_blank(event["key"]),
        _or_blank(event["version"]),
        _change(event),
    )


def _who(event: Answer) -> str:
    name: str = event["source_client"]
    claimed = event["claimed_client"]
    if claimed and claimed != name:
        return f"{name} (as {claimed})"
    return f"{name}*" if event["self_reported"] else name


def _change(event: Answer) -> str:
    before, after = event["value_before"], event["value_after"]
    if event["kind"] == "conflict":
        return f"kept {_or_absent(before)}, refused {_or_absent(after)}"
    if before is None and after is None:
        detail: Answer = event["detail"]
        return " ".join(f"{name}={_plain(value)}" for name, value in detail.items())
    return f"{_or_absent(before)} → {_or_absent(after)}"


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _or_blank(value: object) -> object:
    return "" if value is None else value


def _or_absent(value: str | None) -> str:
    return _ABSENT if value is None else value


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
