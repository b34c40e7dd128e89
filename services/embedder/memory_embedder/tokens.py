"""A model's tokens: how a text is cut into what the model reads whole."""

from itertools import groupby
from operator import itemgetter
from pathlib import Path

from tokenizers import Encoding, Tokenizer

from memory_embedder import windows

OVERLAP_TOKENS = 40


class Tokens:
    """`longest` is how many the model reads, its own marks among them. Callable from any thread.

    Raises `ValueError` if they leave no room for a text.
    """

    def __init__(self, tokenizer: Path, longest: int) -> None:
        self._tokenizer = Tokenizer.from_file(str(tokenizer))
        # The file as published pads every text to 128 tokens and cuts it off there.
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._size = longest - self._tokenizer.num_special_tokens_to_add(is_pair=False)
        if self._size < 1:
            raise ValueError(f"{longest} tokens leave no room for a text")

    def windows(self, text: str) -> list[str]:
        return windows.cut(text, _words(self._encoded(text)), self._size, OVERLAP_TOKENS)

    def ids(self, text: str) -> list[int]:
        """Returns the tokens of a text and the marks around them; what is too long is cut off."""
        encoding = self._encoded(text)
        encoding.truncate(self._size)
        return self._tokenizer.post_process(encoding).ids

    def _encoded(self, text: str) -> Encoding:
        return self._tokenizer.encode(text, add_special_tokens=False)


def _words(encoding: Encoding) -> list[windows.Word]:
    tokens = zip(encoding.word_ids, encoding.offsets, strict=True)
    groups = (list(group) for _, group in groupby(tokens, key=itemgetter(0)))
    return [windows.Word(start=group[0][1][0], tokens=len(group)) for group in groups]
