"""What becomes of an error: a sentence, for programs a problem, and an exit code."""

import contextlib
import sys
import traceback
from typing import Any

from memory_bridge import exits, settings, streams
from memory_bridge.errors import ClientError, ServerDied, ToolFailed
from memory_bridge.output import Screen

_WE_SAY = "memory-bridge: "


def tell(error: BaseException, *, as_json: bool, debug: bool) -> int:
    """Says what went wrong and returns the exit code. Raises `BrokenPipeError` and no other."""
    screen = Screen(streams.output() or sys.stderr, sys.stderr)
    screen.note(_said_by_its_own_server(error) or f"{_WE_SAY}{_sentence(error)}")
    if debug or settings.debug():
        screen.note("".join(traceback.format_exception(error)).rstrip())
    if as_json and streams.output() is not None:
        _print(screen, error)
    elif isinstance(error, ToolFailed) and (value := error.current_value) is not None:
        screen.note(f"The value now: {value}")
    return exits.code_of(error)


def _print(screen: Screen, error: BaseException) -> None:
    # Nowhere to write to is no second error, and may be the first.
    with contextlib.suppress(exits.OutputError):
        screen.json({"problem": _problem(error)})
        screen.flush()


def _sentence(error: BaseException) -> str:
    if isinstance(error, ToolFailed):
        return str(error.problem.get("message", error))
    if isinstance(error, (ClientError, exits.WrongUsageError, exits.OutputError)):
        return str(error)
    kind, text = type(error).__name__, " ".join(str(error).split())
    told = f"{kind}: {text}" if text else kind
    return f"This should not have happened ({told}). Try again with --debug to see where it did."


def _said_by_its_own_server(error: BaseException) -> str | None:
    """Returns the sentence with which a server that cannot serve ends."""
    words = error.last_words if isinstance(error, ServerDied) else ()
    return next((line for line in reversed(words) if line.startswith(_WE_SAY)), None)


def _problem(error: BaseException) -> dict[str, Any]:
    if isinstance(error, ToolFailed) and error.problem:
        return error.problem
    return {
        "code": exits.name_of(error),
        "message": (_said_by_its_own_server(error) or _sentence(error)).removeprefix(_WE_SAY),
        "retryable": exits.passes(error),
    }
