"""Tail: what happens, as it happens."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from memory_bridge.arguments import count
from memory_bridge.commands import Answer
from memory_bridge.commands.programs import Program, understanding
from memory_bridge.exits import OK

if TYPE_CHECKING:
    from memory_bridge.commands.reaching import Reached
    from memory_bridge.output import Screen
    from memory_bridge.rest import Query, RestClient

_EARLIER = 10
_LONGEST_PAGE = 1_000
# Of time, client, kind, place and version; what is longer pushes the rest of its line aside.
_WIDTHS = (23, 14, 8, 20, 3)


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("--prefix", default="", metavar="P", help="only keys that begin with P")
    parser.add_argument(
        "--kind", action="append", dest="kinds", metavar="K", help="set, conflict …; repeatable"
    )
    parser.add_argument("--client", metavar="NAME", help="only what this client did")
    parser.add_argument("--reads", action="store_true", help="gets, lists and searches too")
    begin = parser.add_mutually_exclusive_group()
    begin.add_argument(
        "--last", type=count, default=_EARLIER, metavar="N", help=f"the last N first ({_EARLIER})"
    )
    begin.add_argument("--after", type=count, metavar="ID", help="what came after event ID first")
    parser.add_argument("--count", type=count, metavar="N", help="end after N events")


def _run(options: Namespace) -> int:
    from memory_bridge.commands.reaching import reached  # noqa: PLC0415  # --help does without them
    from memory_bridge.output import Screen  # noqa: PLC0415

    screen = Screen(sys.stdout, sys.stderr)
    with reached(options) as memory:
        for event in islice(_wanted(memory, options, screen.note), options.count):
            with understanding():
                screen.json(event) if options.json else _show(screen, event)
            screen.flush()
    return OK


def _wanted(memory: "Reached", options: Namespace, note: Callable[[str], None]) -> Iterator[Answer]:
    """Yields the last events, then those that come. None is missed or told twice: the stream has
    begun when the list of the last ones is asked for."""
    after = None if options.after is None else str(options.after)
    told: set[int] | None = None if after is None else set()
    for event in memory.follower(_query(options), note, after).events():
        if told is None:
            earlier = _earlier(memory.rest, options)
            told = {old["id"] for old in earlier}
            yield from earlier
        if event is not None and event["id"] not in told and _is_by(options.client, event):
            yield event


def _is_by(client: str | None, event: Answer) -> bool:
    return client is None or event["source_client"] == client


def _query(options: Namespace) -> "Query":
    namespace: str | None = getattr(options, "namespace", None)
    return [
        *([] if namespace is None else [("namespace", namespace)]),
        *([("prefix", options.prefix)] if options.prefix else []),
        *(("kinds", kind) for kind in options.kinds or ()),
        ("include_reads", str(options.reads).lower()),
    ]


def _earlier(rest: "RestClient", options: Namespace) -> list[Answer]:
    """Returns the last events, oldest first."""
    if not options.last:
        return []
    # Of what begins with a prefix the interface has a stream, but no list.
    limit = _LONGEST_PAGE if options.prefix else min(options.last, _LONGEST_PAGE)
    query = [item for item in _query(options) if item[0] != "prefix"]
    by = [] if options.client is None else [("source_client", options.client)]
    with understanding():
        events = rest.call("GET", "events", query=[*query, *by, ("limit", limit)])["events"]
        found = [event for event in events if (event["key"] or "").startswith(options.prefix)]
        return found[: options.last][::-1]


def _show(screen: "Screen", event: Answer) -> None:
    from memory_bridge.commands import events  # noqa: PLC0415  # --help does without it

    at = event["at"][:23].replace("T", " ")
    version = events.or_blank(event["version"])
    cells = (at, events.who(event), event["kind"], events.place(event), version)
    screen.row([*cells, events.change(event)], _WIDTHS)


PROGRAM = Program(
    name="tail",
    help="what happens, as it happens, until Ctrl-C",
    options=_options,
    run=_run,
)
