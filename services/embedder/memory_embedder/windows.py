"""Cuts a text between words into overlapping windows of at most so many tokens."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Word(NamedTuple):
    """`start` is a position in the text, `tokens` how many the word costs the model."""

    start: int
    tokens: int


def cut(text: str, words: Sequence[Word], size: int, overlap: int) -> list[str]:
    """Returns substrings of at most `size` tokens that together hold every character.

    Neighbours share up to `overlap` tokens. Only between words does a piece of a text have the
    tokens that it had in the whole; a word of more than `size` tokens is a window by itself.
    """
    starts = [0, *(word.start for word in words[1:]), len(text)]
    tokens = [word.tokens for word in words]
    return [text[starts[first] : starts[end]] for first, end in _spans(tokens, size, overlap)]


def _spans(tokens: Sequence[int], size: int, overlap: int) -> Iterator[tuple[int, int]]:
    first = 0
    while True:
        end = _forward(tokens, first, size)
        yield first, end
        if end >= len(tokens):
            return
        first = max(first + 1, _back(tokens, end, overlap))


def _forward(tokens: Sequence[int], first: int, size: int) -> int:
    end, total = first + 1, sum(tokens[first : first + 1])
    while end < len(tokens) and total + tokens[end] <= size:
        total += tokens[end]
        end += 1
    return end


def _back(tokens: Sequence[int], end: int, overlap: int) -> int:
    first, total = end, 0
    while first > 0 and total + tokens[first - 1] <= overlap:
        first -= 1
        total += tokens[first]
    return first
