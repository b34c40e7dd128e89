"""Stress: many clients write the same keys at once, with compare-and-set and without."""

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from memory_bridge.commands.programs import Program, understanding
from memory_bridge.exits import NOTHING, OK

if TYPE_CHECKING:
    from memory_bridge.client import Client
    from memory_bridge.contention import Outcome
    from memory_bridge.memory import Memory
    from memory_bridge.output import Screen

_CLIENTS, _WRITES, _KEYS = 4, 100, 1
_MOST = {"clients": 64, "writes": 1_000_000, "keys": 1_000}
_NAMESPACE = "stress"
_MODES = {"cas": "with expected_version", "blind": "without a condition"}


def _options(parser: ArgumentParser) -> None:
    parser.description = (
        "Counts up shared keys from many clients at once. It writes to a temporary database unless"
        " --url or --db names another place, and there to the namespace `stress`; each client"
        " without --url is a server process of its own. $MCP_URL is not asked."
    )
    parser.add_argument("--clients", type=_up_to("clients"), default=_CLIENTS, metavar="N")
    parser.add_argument(
        "--writes", type=_up_to("writes"), default=_WRITES, metavar="M", help="of each client"
    )
    parser.add_argument("--keys", type=_up_to("keys"), default=_KEYS, metavar="K", help="shared")
    parser.add_argument("--mode", choices=tuple(_MODES), help="only this one of the two")


def _up_to(what: str) -> Any:
    def number(text: str) -> int:
        if not 1 <= (found := int(text)) <= _MOST[what]:
            raise ArgumentTypeError(f"{text} is not a number from 1 to {_MOST[what]}")
        return found

    return number


def _run(options: Namespace) -> int:
    from memory_bridge.output import Screen  # noqa: PLC0415  # --help does without it

    screen = Screen(sys.stdout, sys.stderr)
    modes = [options.mode] if options.mode else list(_MODES)
    with _memories(options) as memories, understanding():
        outcomes = {mode: _contend(mode, options, memories) for mode in modes}
    if options.json:
        screen.json({mode: outcome.as_json() for mode, outcome in outcomes.items()})
    else:
        _show(outcomes, options, screen)
    screen.flush()
    return OK if all(_is_good(mode, outcome) for mode, outcome in outcomes.items()) else NOTHING


def _is_good(mode: str, outcome: "Outcome") -> bool:
    """Blind writers lose updates: that is what they are shown for."""
    return not outcome.tally.errors and (mode == "blind" or not outcome.lost)


@contextmanager
def _memories(options: Namespace) -> Generator[Sequence["Memory"]]:
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  # --help does without them

    from memory_bridge.commands import places  # noqa: PLC0415
    from memory_bridge.memory import Memory  # noqa: PLC0415

    namespace: str = getattr(options, "namespace", _NAMESPACE)
    with places.named(options) as place, ExitStack() as stack:
        clients = [place.client() for _ in range(options.clients)]
        with ThreadPoolExecutor(options.clients) as pool:
            opened: list[Client] = list(pool.map(stack.enter_context, clients))
        yield [
            Memory(client, namespace, f"stress-{number}")
            for number, client in enumerate(opened, start=1)
        ]


def _contend(mode: str, options: Namespace, memories: Sequence["Memory"]) -> "Outcome":
    """Runs one load on keys of its own, which are removed afterwards."""
    import secrets  # noqa: PLC0415  # as above

    from memory_bridge.contention import Load, contend  # noqa: PLC0415

    run = secrets.token_hex(4)
    keys = tuple(f"{mode}/{run}/{number}" for number in range(options.keys))
    try:
        return contend(Load(options.writes, keys, compares=mode == "cas"), memories)
    finally:
        _remove(memories[0], keys)


def _remove(memory: "Memory", keys: Sequence[str]) -> None:
    from memory_bridge.contention import patiently  # noqa: PLC0415  # as above
    from memory_bridge.errors import ClientError  # noqa: PLC0415

    for key in keys:
        try:
            patiently(lambda key=key: memory.call("memory_delete", {"key": key}))
        except ClientError:
            return  # an error that matters was told before


def _show(outcomes: dict[str, "Outcome"], options: Namespace, screen: "Screen") -> None:
    from memory_bridge.latencies import histogram  # noqa: PLC0415  # as above

    screen.line(f"{options.clients} clients, {options.writes} writes each, {options.keys} key(s)")
    for mode, outcome in outcomes.items():
        screen.line("")
        screen.line(f"{_MODES[mode]}:")
        screen.table(_figures(outcome))
        screen.table(histogram(outcome.tally.milliseconds))


def _figures(outcome: "Outcome") -> list[tuple[str, str]]:
    told = outcome.as_json()
    errors = ", ".join(f"{name} {count}" for name, count in told["errors"].items())
    spread = ", ".join(f"{name} {each:.1f}" for name, each in told["milliseconds"].items())
    return [
        ("writes", f"{told['written']} in {told['seconds']:.1f} s"),
        ("a second", f"{told['writes_per_second']:.0f}"),
        ("errors", errors or "0"),
        ("conflicts, tried again", str(told["refused"])),
        ("told to come later", str(told["deferred"])),
        ("lost updates", str(told["lost_updates"])),
        ("milliseconds a call", spread or "-"),
    ]


PROGRAM = Program(
    name="stress",
    help="many clients at the same keys: conflicts, lost updates, latencies",
    options=_options,
    run=_run,
)
