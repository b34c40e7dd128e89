"""The standard streams as they may be found: closed, full, or with a reader that has gone."""

import contextlib
import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import TextIO, cast

from memory_bridge.exits import OutputError, WrongUsageError


def give_notes_a_place() -> None:
    """A closed stderr loses what is said, and nothing fails for that."""
    if cast("TextIO | None", sys.stderr) is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # until the end


def output() -> TextIO | None:
    """Returns stdout, None when it is closed."""
    return cast("TextIO | None", sys.stdout)


def require_output() -> None:
    """Raises `WrongUsageError` when stdout is closed: nothing is done that cannot be answered."""
    if output() is None:
        raise WrongUsageError(f"stdout is closed; send it to {os.devnull} to do without an answer.")


def input_bytes(most: int) -> bytes:
    """Returns all of stdin. Raises `WrongUsageError` when it cannot be read or holds more."""
    source = cast("TextIO | None", sys.stdin)
    if source is None:
        raise WrongUsageError("stdin is closed, and - stands for what it holds.")
    try:
        data = source.buffer.read(most + 1)
    except OSError as error:
        raise WrongUsageError(f"stdin cannot be read: {error.strerror or error}.") from error
    if len(data) > most:
        raise WrongUsageError(f"stdin holds more than {most} bytes, the most that can be sent.")
    return data


def flush_output() -> None:
    """Raises what `writing` raises."""
    if (out := output()) is not None:
        with writing(out):
            out.flush()


@contextlib.contextmanager
def writing(stream: TextIO) -> Generator[None]:
    """Raises `BrokenPipeError` as it is, and `OutputError` for whatever else ends the writing."""
    try:
        yield
    except BrokenPipeError:
        silence(stream)
        raise
    except OSError as error:
        silence(stream)
        told = f"The answer cannot be written to stdout: {error.strerror or error}."
        raise OutputError(f"{told} What was asked for is done.") from error


def silence(stream: TextIO) -> None:
    """Lets what is left in the buffer go nowhere, so that it cannot fail at the exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
