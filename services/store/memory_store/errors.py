"""What a store raises: a class, a stable code, whether trying again can help."""

from typing import ClassVar

from memory_store.vocabulary import Fact, FactOutcome, Problem


class StoreError(Exception):
    """The root of what a store raises. `retryable` says whether trying again can help."""

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False

    def __init__(
        self, message: str, *, argument: str | None = None, current: Fact | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.argument = argument
        self.current = current

    def problem(self) -> Problem:
        return Problem(
            code=self.code,
            message=self.message,
            retryable=self.retryable,
            argument=self.argument,
            current=self.current,
        )


class Invalid(StoreError):
    """An argument is not allowed; `argument` names it and the message gives the limit."""

    code = "invalid_argument"
    status = 422


class Forbidden(StoreError):
    """The caller has proved who it is and may not do this. No store raises it: the door does."""

    code = "forbidden"
    status = 403


class NotFound(StoreError):
    code = "not_found"
    status = 404


class Conflict(StoreError):
    """A condition did not hold; `current` is the fact that won, None if the key is absent."""

    code = "conflict"
    status = 409


class IdempotencyMismatch(StoreError):
    """The idempotency key was used before for a different write."""

    code = "idempotency_mismatch"
    status = 409


class Busy(StoreError):
    """Another process held the write lock for too long. Nothing was written."""

    code = "busy"
    status = 503
    retryable = True


class Unavailable(StoreError):
    """The store cannot be reached or is closing; whether a write landed is unknown."""

    code = "unavailable"
    status = 503
    retryable = True


class Internal(StoreError):
    """A fault of the store's own. The log has the whole of it, the message nothing."""


ERRORS: dict[str, type[StoreError]] = {error.code: error for error in StoreError.__subclasses__()}


def error_from(problem: Problem) -> StoreError:
    return ERRORS.get(problem.code, Internal)(
        problem.message, argument=problem.argument, current=problem.current
    )


def fact_of(outcome: FactOutcome) -> Fact:
    """Returns the fact that a write became, or raises what it met instead."""
    if outcome.problem is not None:
        raise error_from(outcome.problem)
    if outcome.fact is None:
        raise AssertionError("an outcome has a fact or a problem")
    return outcome.fact
