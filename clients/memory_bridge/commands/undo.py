"""Undo: a fact as it was before its last change, unless somebody changes it meanwhile."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memory_bridge.commands import Answer
from memory_bridge.commands.diff import difference_of
from memory_bridge.commands.programs import Program, understanding
from memory_bridge.exits import NOTHING, OK

if TYPE_CHECKING:
    from memory_bridge.memory import Memory
    from memory_bridge.output import Screen

_CHANGES = ("set", "restore", "import", "delete", "expire")
_AT_ONCE = 20


@dataclass(frozen=True)
class _Undoing:
    """`now` is the fact whose last change is undone and `before` what it was; None is absent."""

    key: str
    now: Answer | None
    before: Answer | None

    def apply(self, memory: "Memory") -> Answer | None:
        """Returns the fact that came of it. Raises `ToolFailed`: a conflict when it is changed."""
        version = 0 if self.now is None else self.now["version"]
        if self.before is None:
            memory.call("memory_delete", {"key": self.key, "expected_version": version})
            return None
        kept = {} if self.before.get("metadata_cut") else _labels(self.before)
        write = {"key": self.key, "value": self.before["value"], "expected_version": version}
        return memory.call("memory_set", {**write, **kept})["fact"]


def _labels(fact: Answer) -> Answer:
    return {"tags": fact["tags"], "metadata": fact["metadata"]}


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("key", metavar="KEY")
    parser.add_argument("--dry-run", action="store_true", help="only say what it would do")


def _run(options: Namespace) -> int:
    from memory_bridge import memory, settings  # noqa: PLC0415  # --help does without them
    from memory_bridge.output import Screen  # noqa: PLC0415

    screen = Screen(sys.stdout, sys.stderr)
    with memory.opened(options, settings.read()) as mine, understanding():
        undoing = _undoing(mine, options.key)
        if undoing is None:
            screen.note("There is nothing to undo: no earlier state of it is kept.")
            return NOTHING
        if not options.json:
            _show(undoing, screen)
        if not options.dry_run:
            fact = undoing.apply(mine)
            _tell(undoing, fact, screen, as_json=options.json)
        elif options.json:
            screen.json({"now": undoing.now, "before": undoing.before})
    screen.flush()
    return OK


def _undoing(memory: "Memory", key: str) -> _Undoing | None:
    now = memory.call("memory_get", {"key": key})["fact"]
    last = _last_change(memory, key, None if now is None else now["version"])
    if last is None:
        return None
    if now is not None and last["value_before"] is None:
        return _Undoing(key, now, before=None)
    version = last["version"] - (now is not None)
    before = memory.call("memory_get", {"key": key, "at": version})["fact"]
    return None if before is None else _Undoing(key, now, before)


def _last_change(memory: "Memory", key: str, version: int | None) -> Answer | None:
    """Returns the event that made the version, or made the fact absent."""
    changes = (event for event in _events(memory, key) if event["kind"] in _CHANGES)
    return next((event for event in changes if version in (None, event["version"])), None)


def _events(memory: "Memory", key: str) -> Iterator[Answer]:
    """Yields the key's events, newest first."""
    asked: Answer = {"key": key, "limit": _AT_ONCE}
    while True:
        page = memory.call("memory_history", asked)
        yield from page["events"]
        if not page.get("next_cursor"):
            return
        asked = {**asked, "cursor": page["next_cursor"]}


def _show(undoing: _Undoing, screen: "Screen") -> None:
    from memory_bridge.excerpts import one_line  # noqa: PLC0415  # --help does without it

    key, now, before = one_line(undoing.key), undoing.now, undoing.before
    if before is None:
        screen.line(f"{key} was absent before version {_made(now)}: it is to be removed.")
    elif now is None:
        screen.line(f"{key} is absent: it is to have what version {_made(before)} held.")
    else:
        screen.line(f"{key}, version {_made(now)}, is to have what version {_made(before)} held:")
        screen.value(difference_of(now, before))


def _made(fact: Answer | None) -> str:
    from memory_bridge.excerpts import one_line  # noqa: PLC0415  # as above

    return f"{fact['version']} of {one_line(fact['source_client'])}" if fact else "?"


def _tell(undoing: _Undoing, fact: Answer | None, screen: "Screen", *, as_json: bool) -> None:
    from memory_bridge.excerpts import one_line  # noqa: PLC0415  # as above

    if as_json:
        screen.json({"now": undoing.now, "before": undoing.before, "fact": fact})
    else:
        done = "removed" if fact is None else f"at version {fact['version']}"
        screen.line(f"{one_line(undoing.key)} is {done} now. The same again takes it back.")


PROGRAM = Program(
    name="undo",
    help="take back the last change of a fact, if nobody else changes it meanwhile",
    options=_options,
    run=_run,
)
