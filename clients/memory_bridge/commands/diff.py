"""Diff: two versions of a fact beside each other."""

import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from memory_bridge.arguments import count
from memory_bridge.commands import Answer
from memory_bridge.commands.programs import Program, understanding
from memory_bridge.exits import NOTHING, OK

if TYPE_CHECKING:
    from memory_bridge.memory import Memory
    from memory_bridge.output import Screen


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("key", metavar="KEY")
    parser.add_argument("before", type=count, metavar="V1", help="a version")
    parser.add_argument(
        "after", type=count, nargs="?", metavar="V2", help="another; the newest unless given"
    )


def _run(options: Namespace) -> int:
    from memory_bridge import memory, settings  # noqa: PLC0415  # --help does without them
    from memory_bridge.output import Screen  # noqa: PLC0415

    screen = Screen(sys.stdout, sys.stderr)
    with memory.opened(options, settings.read()) as mine:
        pair = [_version(mine, options.key, at, screen) for at in (options.before, options.after)]
    before, after = pair
    if before is None or after is None:
        return NOTHING
    with understanding():
        is_different = _show(before, after, screen, as_json=options.json)
    screen.flush()
    return OK if is_different else NOTHING


def _version(memory: "Memory", key: str, at: int | None, screen: "Screen") -> Answer | None:
    answer = memory.call("memory_get", {"key": key, "at": at})
    with understanding():
        if not answer["found"]:
            what = "no such fact now" if at is None else f"no version {at} of it"
            screen.note(f"There is {what}.")
        return answer["fact"]


def _show(before: Answer, after: Answer, screen: "Screen", *, as_json: bool) -> bool:
    """Returns whether there is a difference. Texts that are the same may have other tags."""
    text = difference_of(before, after)
    if as_json:
        screen.json({"before": before, "after": after, "diff": text})
    elif text:
        screen.value(text)
    else:
        screen.note("The texts are the same.")
    return bool(text)


def difference_of(before: Answer, after: Answer) -> str:
    from memory_bridge.unified import unified  # noqa: PLC0415  # --help does without it

    return unified(before["value"], after["value"], (_name(before), _name(after)))


def _name(fact: Answer) -> str:
    from memory_bridge.excerpts import one_line  # noqa: PLC0415  # as above

    at = fact["updated_at"][:19].replace("T", " ")
    return one_line(f"{fact['key']} version {fact['version']} by {fact['source_client']} {at}")


PROGRAM = Program(
    name="diff",
    help="how two versions of a fact differ",
    options=_options,
    run=_run,
)
