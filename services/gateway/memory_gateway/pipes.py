"""The pipes of a stdio client, kept clean: whatever else writes to stdout lands on stderr."""

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Pipes:
    """Descriptors that stay open until the process ends, since a thread may be blocked on one."""

    incoming: int
    outgoing: int


def claim_pipes() -> Pipes:
    """Takes the client's pipes over: fd 0 is empty and fd 1 is stderr from here on."""
    pipes = Pipes(os.dup(0), os.dup(1))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return pipes
