"""Text on one line, as much of it as there is room for. Room is counted in columns."""

import re
import unicodedata
from collections.abc import Sequence

_CUT = "…"
# Control characters, and those that turn the direction of the text around them.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def one_line(text: str) -> str:
    """Returns the text with control characters, line ends among them, written as escapes."""
    return _CONTROL.sub(escaped, text)


def escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


def width(text: str) -> int:
    return len(text) if text.isascii() else sum(map(_columns, text))


def excerpt(text: str, room: int, start: int = 0) -> str:
    """Returns the text, or the part of it that shows what is at `start`, with … where it is cut."""
    before, after = one_line(text[:start]), one_line(text[start:])
    if width(before) + width(after) <= room:
        return before + after
    # A third of the room tells what comes before; more of it when little comes after.
    lead = max(room // 3, room - width(after))
    if width(before) > lead:
        before = _CUT + _last(before, lead - len(_CUT))
    room -= width(before)
    return before + (after if width(after) <= room else _first(after, room - len(_CUT)) + _CUT)


def place_of(words: Sequence[str], text: str) -> int:
    """Returns where the longest of the words stands first, whatever its case; 0 if none does.

    A word of its own, or its beginning, goes before what is only a part of another word.
    """
    for edge in (r"\b", ""):
        for word in sorted(words, key=len, reverse=True):
            if found := re.search(edge + re.escape(word), text, re.IGNORECASE):
                return found.start()
    return 0


def difference(one: str, other: str) -> int:
    """Returns the first place where two texts differ; 0 if they do not."""
    if one == other:
        return 0
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _first(text: str, room: int) -> str:
    end = used = 0
    while end < len(text) and used + _columns(text[end]) <= room:
        used += _columns(text[end])
        end += 1
    return text[:end]


def _last(text: str, room: int) -> str:
    return _first(text[::-1], room)[::-1]
