"""What the command prints: bare values and tables for people, JSON for programs."""

import json
import re
import shutil
from collections.abc import Callable, Sequence
from io import TextIOWrapper
from typing import Any, TextIO

from memory_bridge import streams
from memory_bridge.excerpts import escaped, one_line, width

Cell = str | int | Callable[[int], str]
"""A function returns what to show in the room, counted in columns, that a line has left."""

_CLEAR = "\x1b[H\x1b[2J"
_GAP = "  "
_NARROWEST_ROOM = 24
_ROOM_IN_A_PIPE = 80
_CONTROL_BUT_LAYOUT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


class Screen:
    """Answers go to `out`, sentences about them to `err`.

    What prints an answer may raise `OutputError` and `BrokenPipeError`.
    """

    def __init__(self, out: TextIO, err: TextIO) -> None:
        self._out = out
        self._err = err
        self._terminal = out.isatty()
        _never_fail_to_encode(out, utf8=not self._terminal)
        _never_fail_to_encode(err, utf8=False)

    def line(self, text: str) -> None:
        self._write(text + "\n")

    def note(self, sentence: str) -> None:
        """Says a sentence. Where nothing can be said nothing fails for that."""
        try:
            self._err.write(_CONTROL_BUT_LAYOUT.sub(escaped, sentence) + "\n")
            self._err.flush()
        except OSError:
            streams.silence(self._err)

    def value(self, text: str) -> None:
        """Writes the text exactly; at a terminal disarmed and with a line end of its own."""
        if self._terminal:
            text = _CONTROL_BUT_LAYOUT.sub(escaped, text)
            text = text if text.endswith("\n") else text + "\n"
        self._write(text)

    def begin_anew(self, *, can_redraw: bool) -> None:
        """Clears a terminal that can be; elsewhere what comes stands below, after a blank line."""
        self._write(_CLEAR if self._terminal and can_redraw else "\n")

    def json(self, answer: dict[str, Any]) -> None:
        self.line(json.dumps(answer, ensure_ascii=False))

    def table(self, rows: Sequence[Sequence[Cell]], head: Sequence[str] | None = None) -> None:
        """Aligns all columns but the last, the only one that may hold functions."""
        lines = rows if head is None else [head, *rows]
        cells = [[one_line(str(cell)) for cell in line[:-1]] for line in lines]
        widths = [max(map(width, column)) for column in zip(*cells, strict=True)]
        for line in lines:
            self.row(line, widths)

    def row(self, cells: Sequence[Cell], widths: Sequence[int]) -> None:
        """Writes a line of a table whose columns, but for the last, are at least so wide."""
        *texts, last = cells
        shown = [one_line(str(text)) for text in texts]
        padded = [
            text + " " * (wide - width(text)) for text, wide in zip(shown, widths, strict=True)
        ]
        room = self._room(sum(width(text) + len(_GAP) for text in padded))
        self.line(_GAP.join([*padded, _shown(last, room)]).rstrip())

    def flush(self) -> None:
        with streams.writing(self._out):
            self._out.flush()

    def _write(self, text: str) -> None:
        with streams.writing(self._out):
            self._out.write(text)

    def _room(self, left: int) -> int:
        if not self._terminal:
            return _ROOM_IN_A_PIPE
        return max(shutil.get_terminal_size().columns - left, _NARROWEST_ROOM)


def _shown(cell: Cell, room: int) -> str:
    return cell(room) if callable(cell) else one_line(str(cell))


def _never_fail_to_encode(stream: TextIO, *, utf8: bool) -> None:
    """A pipe gets UTF-8 with the line ends as they are, whatever the locale; a terminal its own."""
    if not isinstance(stream, TextIOWrapper):
        return
    if utf8:
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")
    else:
        stream.reconfigure(errors="backslashreplace")
