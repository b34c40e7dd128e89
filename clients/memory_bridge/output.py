"""What the command prints: bare values and tables for people, JSON for programs."""

import json
import re
import shutil
import unicodedata
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Any, TextIO

_GAP = "  "
_NARROWEST_CELL = 16
# Control characters, and those that turn the direction of the text around them.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_CONTROL_BUT_LAYOUT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


class Screen:
    """Answers go to `out`, sentences about them to `err`."""

    def __init__(self, out: TextIO, err: TextIO) -> None:
        self._out = out
        self._err = err
        self._terminal = out.isatty()
        _never_fail_to_encode(out, utf8=not self._terminal)
        _never_fail_to_encode(err, utf8=False)

    def line(self, text: str) -> None:
        self._out.write(text + "\n")

    def note(self, sentence: str) -> None:
        self._err.write(_CONTROL_BUT_LAYOUT.sub(_escaped, sentence) + "\n")

    def value(self, text: str) -> None:
        """Writes the text exactly; at a terminal disarmed and with a line end of its own."""
        if self._terminal:
            text = _CONTROL_BUT_LAYOUT.sub(_escaped, text)
            text = text if text.endswith("\n") else text + "\n"
        self._out.write(text)

    def json(self, answer: dict[str, Any]) -> None:
        self.line(json.dumps(answer, ensure_ascii=False))

    def table(self, rows: Sequence[Sequence[object]], head: Sequence[str] | None = None) -> None:
        """Aligns all columns but the last, which a terminal cuts at its edge."""
        lines = rows if head is None else [head, *rows]
        cells = [[one_line(str(cell)) for cell in line] for line in lines]
        widths = [max(map(_width, column)) for column in zip(*cells, strict=True)][:-1]
        left = sum(widths) + len(_GAP) * len(widths)
        for *row, last in cells:
            padded = [
                cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)
            ]
            self.line(_GAP.join([*padded, self._cut(last, left)]).rstrip())

    def flush(self) -> None:
        self._out.flush()

    def _cut(self, text: str, left: int) -> str:
        if not self._terminal:
            return text
        space = max(shutil.get_terminal_size().columns - left, _NARROWEST_CELL)
        return text if _width(text) <= space else _clipped(text, space - 1) + "…"


def one_line(text: str) -> str:
    """Returns the text with control characters, line ends among them, written as escapes."""
    return _CONTROL.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


def _width(text: str) -> int:
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _clipped(text: str, space: int) -> str:
    end = used = 0
    while end < len(text) and used + _columns(text[end]) <= space:
        used += _columns(text[end])
        end += 1
    return text[:end]


def _never_fail_to_encode(stream: TextIO, *, utf8: bool) -> None:
    """A pipe gets UTF-8 with the line ends as they are, whatever the locale; a terminal its own."""
    if not isinstance(stream, TextIOWrapper):
        return
    if utf8:
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")
    else:
        stream.reconfigure(errors="backslashreplace")
