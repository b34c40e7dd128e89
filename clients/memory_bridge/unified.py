"""The differences of two texts, as `diff -u` shows them."""

import difflib
from io import StringIO

_UNENDED = "\\ No newline at end of file\n"


def unified(before: str, after: str, names: tuple[str, str]) -> str:
    """Returns the differences, nothing if there are none. Only \\n ends a line: a \\r is text.

    That a text does not end with a line end is said where the other one does.
    """
    ends = before.endswith("\n"), after.endswith("\n")
    if before and after and not any(ends):
        before, after = before + "\n", after + "\n"
    lines = difflib.unified_diff(_lines(before), _lines(after), *names)
    return "".join(line if line.endswith("\n") else f"{line}\n{_UNENDED}" for line in lines)


def _lines(text: str) -> list[str]:
    return list(StringIO(text, newline="\n"))
