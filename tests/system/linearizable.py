"""Whether a history of one register could have come from one that does a thing at a time."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

NEVER = math.inf


@dataclass(frozen=True)
class State:
    """What the register holds: version 0 is an absent value."""

    version: int = 0
    value: str | None = None

    def written(self, value: str) -> "State":
        return State(self.version + 1, value)


@dataclass(frozen=True)
class Operation:
    """One call: when it was begun, when it was answered, and what that means for the register.

    `apply` returns the state after it, None where its answer cannot come from the state before.
    What was never answered (`returned` is NEVER) may have happened at any time since, or not.
    """

    invoked: float
    returned: float
    apply: Callable[[State], State | None]


def read(invoked: float, returned: float, answer: State) -> Operation:
    return Operation(invoked, returned, lambda state: state if state == answer else None)


def write(invoked: float, returned: float, value: str, answer: int | None) -> Operation:
    """`answer` is the version that was made, None if nobody knows."""

    def apply(state: State) -> State | None:
        after = state.written(value)
        return after if answer in (None, after.version) else None

    return Operation(invoked, returned, apply)


def won(invoked: float, returned: float, expected: State, value: str) -> Operation:
    """A compare-and-set that was answered with the next version."""

    def apply(state: State) -> State | None:
        return state.written(value) if state == expected else None

    return Operation(invoked, returned, apply)


def lost(invoked: float, returned: float, expected: State, winner: State) -> Operation:
    """A compare-and-set that was refused, naming what won."""

    def apply(state: State) -> State | None:
        return state if state == winner != expected else None

    return Operation(invoked, returned, apply)


def unanswered(invoked: float, expected: State, value: str) -> Operation:
    """A compare-and-set of which nobody knows whether it arrived, or what became of it.

    One that was refused is as good as one that never arrived.
    """
    return Operation(invoked, NEVER, won(invoked, NEVER, expected, value).apply)


def is_linearizable(history: Iterable[Operation], state: State | None = None) -> bool:
    """Searches for an order that respects the times and explains every answer.

    Wing and Gong's search; what was tried with the same operations done and the same state is
    not tried again.
    """
    operations = sorted(history, key=lambda operation: operation.invoked)
    answered = sum(1 << at for at, it in enumerate(operations) if it.returned != NEVER)
    seen = {(0, state or State())}
    waiting = list(seen)
    while waiting:
        done, now = waiting.pop()
        if done & answered == answered:
            return True
        steps = {step for step in _steps(operations, done, now) if step not in seen}
        seen |= steps
        waiting += steps
    return False


def _steps(operations: Sequence[Operation], done: int, now: State) -> list[tuple[int, State]]:
    """What may be done next, and the state after it."""
    steps: list[tuple[int, State]] = []
    for at in _next(operations, done):
        after = operations[at].apply(now)
        if after == now:  # it changes nothing, so there is no better time for it
            return [(done | 1 << at, now)]
        if after is not None:
            steps.append((done | 1 << at, after))
    return steps


def _next(operations: Sequence[Operation], done: int) -> Iterator[int]:
    """Those that may come next: begun before any other that is left was answered."""
    first = (~done & (done + 1)).bit_length() - 1
    deadline = NEVER
    for at in range(first, len(operations)):
        if operations[at].invoked > deadline:
            return
        if not done >> at & 1:
            deadline = min(deadline, operations[at].returned)
            yield at
