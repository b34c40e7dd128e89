"""History: who changed what, and when."""

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from memory_bridge.commands import Answer, Command, paging, show_rest, when
from memory_bridge.excerpts import difference, excerpt, width

if TYPE_CHECKING:
    from memory_bridge.output import Cell, Screen

_ABSENT = "∅"


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("key", metavar="KEY", nargs="?", help="of this key only")
    parser.add_argument("--reads", action="store_true", help="gets, lists and searches too")
    paging(parser)


def _show(screen: "Screen", answer: Answer, options: Namespace) -> None:
    events = answer["events"]
    if not events:
        screen.note("There are no such events.")
        return
    # The key that was asked for would only take the room of what changed.
    columns = [column for column in _COLUMNS if not (options.key and column[0] == "KEY")]
    rows = [[cell(event) for _, cell in columns] for event in events]
    screen.table(rows, [name for name, _ in columns])
    if any(event["self_reported"] for event in events):
        screen.note("* says so itself; no token proves it")
    show_rest(screen, answer)


def _who(event: Answer) -> str:
    name: str = event["source_client"]
    claimed = event["claimed_client"]
    if claimed and claimed != name:
        return f"{name} (as {claimed})"
    return f"{name}*" if event["self_reported"] else name


def _change(event: Answer) -> "Cell":
    before, after = event["value_before"], event["value_after"]
    if event["kind"] == "conflict":
        return partial(
            _side_by_side, ("kept ", _or_absent(before), ", refused ", _or_absent(after))
        )
    if before is None and after is None:
        detail: Answer = event["detail"]
        told = " ".join(f"{name}={_plain(value)}" for name, value in detail.items())
        return partial(excerpt, told)
    return partial(_side_by_side, ("", _or_absent(before), " → ", _or_absent(after)))


def _side_by_side(parts: tuple[str, str, str, str], room: int) -> str:
    """Cuts the second and the fourth part so that both are seen, where they begin to differ."""
    first, before, second, after = parts
    room -= width(first + second)
    differ = difference(before, after)
    left = excerpt(before, max(room // 2, room - width(after)), differ)
    return first + left + second + excerpt(after, room - width(left), differ)


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _or_blank(value: str | int | None) -> str | int:
    return "" if value is None else value


def _or_absent(value: str | None) -> str:
    return _ABSENT if value is None else value


_COLUMNS: tuple[tuple[str, Callable[[Answer], "Cell"]], ...] = (
    ("WHEN (UTC)", lambda event: when(event["at"])),
    ("WHO", _who),
    ("WHAT", lambda event: event["kind"]),
    ("KEY", lambda event: _or_blank(event["key"])),
    ("VER", lambda event: _or_blank(event["version"])),
    ("CHANGE", _change),
)
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
