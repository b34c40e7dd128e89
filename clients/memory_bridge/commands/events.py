"""Events of the trail as people read them."""

import json
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

from memory_bridge.commands import Answer, when
from memory_bridge.excerpts import difference, excerpt, width

if TYPE_CHECKING:
    from memory_bridge.output import Cell, Screen

KEY = "KEY"
SELF_REPORTED = "* says so itself; no token proves it"
_ABSENT = "∅"
_USUAL = "default"

Column = tuple[str, Callable[[Answer], "Cell"]]


def show_events(
    screen: "Screen", events: Sequence[Answer], *, without: Collection[str] = ()
) -> None:
    """Shows a table of events, without the columns of those names."""
    columns = [column for column in COLUMNS if column[0] not in without]
    rows = [[cell(event) for _, cell in columns] for event in events]
    screen.table(rows, [name for name, _ in columns])
    if any(event["self_reported"] for event in events):
        screen.note(SELF_REPORTED)


def who(event: Answer) -> str:
    name: str = event["source_client"]
    claimed = event["claimed_client"]
    if claimed and claimed != name:
        return f"{name} (as {claimed})"
    return f"{name}*" if event["self_reported"] else name


def change(event: Answer) -> "Cell":
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


def place(event: Answer) -> str:
    """Returns the key, with its namespace unless that is the usual one."""
    namespace, key = event["namespace"], or_blank(event["key"])
    return f"{key}" if namespace in (None, _USUAL) else f"{namespace}: {key}"


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def or_blank(value: str | int | None) -> str | int:
    return "" if value is None else value


def _or_absent(value: str | None) -> str:
    return _ABSENT if value is None else value


COLUMNS: tuple[Column, ...] = (
    ("WHEN (UTC)", lambda event: when(event["at"])),
    ("WHO", who),
    ("WHAT", lambda event: event["kind"]),
    (KEY, lambda event: or_blank(event["key"])),
    ("VER", lambda event: or_blank(event["version"])),
    ("CHANGE", change),
)
