"""Every check in its order, each after what it cannot do without."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from memory_bridge.commands.programs import understanding
from memory_bridge.doctor import door, inside, network
from memory_bridge.doctor.findings import Finding, failed
from memory_bridge.doctor.target import Target
from memory_bridge.errors import ClientError

_AGAIN = "Try again in a moment; if it stays, the server's log says more (`make logs`)."


@dataclass(frozen=True)
class Check:
    """`after` names the checks that must not have failed for this one to see anything."""

    name: str
    look: Callable[[Target], Finding]
    after: tuple[str, ...] = ()


CHECKS = (
    Check("dns", network.dns),
    Check("connection", network.connection, ("dns",)),
    Check("certificate", network.certificate, ("connection",)),
    Check("privacy", network.privacy),
    Check("server", door.server, ("connection", "certificate")),
    Check("clock", network.clock, ("server",)),
    Check("allow-list", door.allow_list, ("server",)),
    Check("token file", door.token_file),
    Check("token", door.token, ("server", "allow-list")),
    Check("store", inside.store, ("server",)),
    Check("queue", inside.queue, ("server",)),
    Check("model", inside.model, ("store", "queue")),
    Check("disk", inside.disk, ("token", "store")),
    Check("memory", inside.memory, ("token",)),
)


def examine(target: Target) -> Iterator[tuple[str, Finding]]:
    """Yields each check's name with what it found, as soon as it has."""
    unseen: set[str] = set()
    for check in CHECKS:
        missing = next((name for name in check.after if name in unseen), None)
        finding = _look(check, target) if missing is None else _not_looked(missing)
        if finding.state == "failed" or missing is not None:
            unseen.add(check.name)
        yield check.name, finding


def _look(check: Check, target: Target) -> Finding:
    try:
        with understanding():
            return check.look(target)
    except ClientError as error:
        return failed(str(error), _AGAIN)


def _not_looked(missing: str) -> Finding:
    return Finding("unseen", f"This could not be looked at: {missing} comes first.")
