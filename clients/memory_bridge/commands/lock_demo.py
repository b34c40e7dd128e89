"""Lock-demo: what a write does while another client holds the write lock."""

import sys
import time
from argparse import ArgumentParser, Namespace
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from memory_bridge.arguments import interval
from memory_bridge.commands import Answer
from memory_bridge.commands.programs import Program, understanding
from memory_bridge.errors import ClientError, ToolFailed
from memory_bridge.exits import NOTHING, OK

if TYPE_CHECKING:
    from concurrent.futures import Future

    from memory_bridge.commands.places import Place
    from memory_bridge.memory import Memory
    from memory_bridge.output import Screen

_HOLD = "1.5s"
_PATIENT_MS = 5_000
_KEY, _PROBE = "demo/port", "demo/probe"
_LOOK_SECONDS = 0.01


@dataclass(frozen=True)
class _Attempt:
    """A write while A holds the lock. `problem` is what it met, `trail` the events it left."""

    busy_timeout_ms: int
    milliseconds: float
    problem: Answer | None
    trail: list[Answer]


def _options(parser: ArgumentParser) -> None:
    parser.description = (
        "Client A holds the write lock of a temporary database while client B writes, first"
        " without patience and then with. Each has a server process of its own."
    )
    parser.add_argument(
        "--hold", type=interval, default=_HOLD, metavar="TIME", help=f"how long ({_HOLD})"
    )


def _run(options: Namespace) -> int:
    from memory_bridge.commands.places import temporary  # noqa: PLC0415  # --help does without
    from memory_bridge.output import Screen  # noqa: PLC0415

    screen = Screen(sys.stdout, sys.stderr)
    with temporary() as place, understanding():
        attempts = _demonstrate(place, options.hold)
        if options.json:
            screen.json({"attempts": [asdict(attempt) for attempt in attempts]})
        else:
            _show(attempts, options.hold, screen)
    screen.flush()
    return OK if _are_as_told(*attempts) else NOTHING


def _are_as_told(hasty: _Attempt, patient: _Attempt) -> bool:
    is_refused = hasty.problem is not None and hasty.problem["code"] == "busy"
    return is_refused and not hasty.trail and patient.problem is None and bool(patient.trail)


def _demonstrate(place: "Place", hold_seconds: float) -> tuple[_Attempt, _Attempt]:
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  # --help does without it

    with ExitStack() as stack:
        holder = _joined(stack, place, "client-a", {"MCP_ENABLE_DEMO_TOOLS": "1"})
        hasty, patient = (
            _joined(stack, place, "client-b", {"MCP_SQLITE_BUSY_TIMEOUT": str(milliseconds)})
            for milliseconds in (0, _PATIENT_MS)
        )
        pool = stack.enter_context(ThreadPoolExecutor(1))
        held = pool.submit(holder.call, "lock_hold", {"seconds": hold_seconds})
        _wait_for_lock(hasty, held)
        return _attempt(hasty, 0), _attempt(patient, _PATIENT_MS)


def _joined(stack: ExitStack, place: "Place", name: str, variables: dict[str, str]) -> "Memory":
    from memory_bridge.memory import Memory  # noqa: PLC0415  # --help does without it

    client = stack.enter_context(place.client({**variables, "MCP_CLIENT_ID": name}))
    return Memory(client, None, None)


def _wait_for_lock(memory: "Memory", held: "Future[Answer]") -> None:
    """Returns once a write without patience is refused. Raises what the holding raised."""
    while not held.done():
        if _write(memory, _PROBE) is not None:
            return
        time.sleep(_LOOK_SECONDS)
    held.result()
    raise ClientError("The lock was free again before it was seen: --hold it for longer.")


def _attempt(memory: "Memory", busy_timeout_ms: int) -> _Attempt:
    began = time.perf_counter()
    problem = _write(memory, _KEY)
    took = (time.perf_counter() - began) * 1000
    trail = memory.call("memory_history", {"key": _KEY})["events"]
    return _Attempt(busy_timeout_ms, round(took, 1), problem, trail)


def _write(memory: "Memory", key: str) -> Answer | None:
    """Returns what the write met, None if it was made."""
    try:
        memory.call("memory_set", {"key": key, "value": "5432"})
    except ToolFailed as error:
        return error.problem
    return None


def _show(attempts: tuple[_Attempt, _Attempt], hold_seconds: float, screen: "Screen") -> None:
    from memory_bridge.commands.events import show_events  # noqa: PLC0415  # as above

    screen.line(f"A holds the write lock for {hold_seconds:g} s, and B writes {_KEY}.")
    for attempt in attempts:
        met = attempt.problem
        became = "made" if met is None else f"refused ({met['code']}): {met['message']}"
        screen.line("")
        screen.line(f"MCP_SQLITE_BUSY_TIMEOUT={attempt.busy_timeout_ms}")
        screen.line(f"After {attempt.milliseconds:.1f} ms the write is {became}")
        if attempt.trail:
            screen.line("The trail has it:")
            show_events(screen, attempt.trail)
        else:
            screen.line("The trail has nothing of it: it never landed.")


PROGRAM = Program(
    name="lock-demo",
    help="what a write does while another client holds the write lock",
    options=_options,
    run=_run,
)
