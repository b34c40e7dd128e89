"""One call as it is observed, from its request to its outcome."""

import re
import secrets
import time
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Literal

from memory_store.contract import Caller

CALL = "memory_call"
"""Where a scope of HTTP has its call."""
OK = "ok"
ACCEPTABLE_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")

Via = Literal["stdio", "mcp", "sse", "ws", "rest", "door"]


def request_id(proposed: str | None = None) -> str:
    """Returns what was proposed if it is a plain word, else a new id."""
    if proposed and ACCEPTABLE_ID.fullmatch(proposed):
        return proposed
    return secrets.token_hex(6)


@dataclass
class Call:
    """`name` is one of a bounded set: a tool, a method or a route. `outcome` is `ok` or the code
    of an error. `told` says that a line was written about it."""

    id: str
    name: str
    via: Via
    caller: Caller | None = None
    outcome: str = OK
    status: int | None = None
    client: str | None = None
    told: bool = False
    begun: float = field(default_factory=time.perf_counter)

    def note(self, outcome: str) -> None:
        """Whoever is nearest to the fault knows best what it was, and notes it first."""
        if self.outcome == OK:
            self.outcome = outcome

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.begun


current: ContextVar[Call | None] = ContextVar("current", default=None)
"""The call under way, so that whoever learns who calls can note it."""
