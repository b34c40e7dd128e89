"""Puts a stub together."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from memory_bridge.connections import Origin
from memory_bridge.exits import WrongUsageError
from memory_bridge.http import HttpTransport
from memory_bridge.stub.bridge import Bridge, Terms
from memory_bridge.stub.host import Host


@dataclass(frozen=True)
class Plan:
    """What the user said. `wake` is the command that starts the server, if it may be started."""

    url: str
    read_token: Callable[[], str | None]
    terms: Terms
    wake: str | None
    state_folder: Path | None


def bridge(plan: Plan, on_gone: Callable[[], None]) -> Bridge:
    """Returns a bridge that has taken stdin and stdout over; nothing is connected yet.

    Raises ValueError and `WrongUsageError` for what cannot be meant.
    """
    transport = HttpTransport(plan.url, token=plan.read_token())
    on_unreachable = _waking(plan)
    try:
        host = Host.claim(on_gone)
    except OSError as error:
        raise WrongUsageError("stdin or stdout is closed, so there is no host.") from error
    return Bridge(host, transport, plan.read_token, plan.terms, on_unreachable)


def _waking(plan: Plan) -> Callable[[], None]:
    if plan.wake is None:
        return lambda: None
    from memory_bridge.wake import Places, Waker  # noqa: PLC0415  # most servers are awake

    if plan.state_folder is None:
        raise WrongUsageError("There is no home folder for --wake: set MCP_MEMORY_STORE_DIR.")
    origin = Origin(plan.url)
    name = f"{origin.host}-{origin.address[1]}".replace(":", "_")
    places = Places(plan.state_folder / f"wake-{name}.lock", plan.state_folder / "wake.log")
    return Waker(plan.wake, origin, places, _note).wake


def _note(sentence: str) -> None:
    sys.stderr.write(f"memory-bridge: {sentence}\n")
    sys.stderr.flush()
