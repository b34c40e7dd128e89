"""Hammer: writes a key again and again, and tells who overwrote whom."""

import sys
import time
from argparse import ArgumentParser, Namespace
from contextlib import suppress
from itertools import count as counting
from itertools import islice
from typing import TYPE_CHECKING

from memory_bridge.arguments import count, interval
from memory_bridge.commands import Answer
from memory_bridge.commands.programs import Program, understanding
from memory_bridge.exits import INTERRUPTED, OK

if TYPE_CHECKING:
    from memory_bridge.memory import Memory
    from memory_bridge.output import Screen
    from memory_bridge.race import Race

_EVERY = "300ms"
_PAGE = 100


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("key", metavar="KEY")
    parser.add_argument(
        "--every", type=interval, default=_EVERY, metavar="TIME", help=f"300ms, 2s, 0 ({_EVERY})"
    )
    parser.add_argument("--count", type=count, metavar="N", help="end after N writes")


def _run(options: Namespace) -> int:
    import secrets  # noqa: PLC0415  # --help does without these

    from memory_bridge import memory, settings  # noqa: PLC0415
    from memory_bridge.output import Screen  # noqa: PLC0415
    from memory_bridge.race import Race  # noqa: PLC0415

    screen, race, environment = Screen(sys.stdout, sys.stderr), Race(), settings.read()
    # Two that race may be on two machines, where both have the same process number.
    name = memory.caller_of(options, environment)[1] or f"hammer-{secrets.token_hex(3)}"
    options.client_id = name
    code = OK
    try:
        with memory.client_for(options, environment) as client:
            mine = memory.Memory(client, *memory.caller_of(options, environment))
            _hammer(_Hammer(mine, options.key, name), race, options, screen)
    except KeyboardInterrupt:
        code = INTERRUPTED
    _sum_up(race, options, screen)
    screen.flush()
    return code


class _Hammer:
    """Writes numbered values under one key, and reads what others wrote between."""

    def __init__(self, memory: "Memory", key: str, name: str) -> None:
        self._memory = memory
        self._key = key
        self._name = name
        self._seen = 0

    def begin(self) -> list[Answer]:
        """Returns the last change there was; what was before it is not of this race."""
        events = self._page({"key": self._key, "limit": 1})["events"]
        self._seen = max((event["id"] for event in events), default=0)
        return events

    def strike(self, number: int) -> list[Answer]:
        """Writes once and returns all that happened to the key since, oldest first."""
        value = f"{self._name} {number}"
        self._memory.call("memory_set", {"key": self._key, "value": value})
        events = self._since()
        self._seen = max((event["id"] for event in events), default=self._seen)
        return events[::-1]

    def _since(self) -> list[Answer]:
        asked: Answer = {"key": self._key, "limit": _PAGE}
        found: list[Answer] = []
        while True:
            page = self._page(asked)
            new = [event for event in page["events"] if event["id"] > self._seen]
            found += new
            if len(new) < len(page["events"]) or not page.get("next_cursor"):
                return found
            asked = {**asked, "cursor": page["next_cursor"]}

    def _page(self, asked: Answer) -> Answer:
        return self._memory.call("memory_history", asked)


def _hammer(hammer: _Hammer, race: "Race", options: Namespace, screen: "Screen") -> None:
    with understanding():
        for event in hammer.begin():
            race.begin(event)
    due = time.monotonic()
    for number in islice(counting(1), options.count):
        with understanding():
            for event in hammer.strike(number):
                _show(race, event, screen, as_json=options.json)
        screen.flush()
        due = max(due + options.every, time.monotonic())
        if number != options.count:
            time.sleep(max(0.0, due - time.monotonic()))


def _show(race: "Race", event: Answer, screen: "Screen", *, as_json: bool) -> None:
    overwritten = race.add(event)
    if as_json:
        screen.json({"event": event, "overwritten": overwritten and overwritten.as_json()})
        return
    from memory_bridge.race import WIDTHS, row_of  # noqa: PLC0415  # --help does without it

    screen.row(row_of(event, overwritten), WIDTHS)


def _sum_up(race: "Race", options: Namespace, screen: "Screen") -> None:
    if options.json:
        return
    with suppress(ValueError):  # of an empty race
        screen.line("")
        screen.table(race.summary(), race.HEAD)


PROGRAM = Program(
    name="hammer",
    help="write a key at intervals and tell who overwrote whom, after how long",
    options=_options,
    run=_run,
)
