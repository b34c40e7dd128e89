"""The pipes of a stdio client, kept clean: whatever else writes to stdout lands on stderr."""

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Pipes:
    """Descriptors that stay open until the process ends, since a thread may be blocked on one."""

    incoming: int
    outgoing: int


def claim_pipes() -> Pipes | None:
    """Takes the client's pipes over: fd 0 is empty and fd 1 is stderr from here on.

    None if there are none because one of them is closed.
    """
    pipes = Pipes(os.dup(0), os.dup(1)) if _is_open(0) and _is_open(1) else None
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(2 if _is_open(2) else nothing, 1)
    return pipes


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
