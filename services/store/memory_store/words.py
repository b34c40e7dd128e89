"""The words of a text: one analyzer for every database, so that all of them rank the same words.

A word holds no white space, quote, bracket or control character, is at most `LONGEST` characters
long and does not end with `*`. Of punctuation it may hold `PUNCTUATION`, of letters any.
"""

import re
import threading
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from operator import add
from typing import cast

# The package's front door would prefer PyStemmer wherever that happens to be installed, and two
# releases of Snowball do not always stem alike.
from snowballstemmer.english_stemmer import (  # pyright: ignore[reportMissingTypeStubs]  it has none
    EnglishStemmer as Stemmer,
)

WORDS_RECIPE = 1
"""Raised whenever any text would get other words: an index made by another recipe is rebuilt."""
LONGEST = 128
MOST_IN_QUERY = 64
REMEMBERED = 1 << 13
REMEMBERED_LONGEST = 32
"""What recurs is short; remembering long chunks too could take tens of megabytes."""
PUNCTUATION = "!#$%&*+,-./:;=?@\\^_|~"

_STOP_WORDS = """
a about above after again against ain't all am an and any are aren't as at be because been before
being below between both but by can can't cannot could couldn't did didn't do does doesn't doing
don't down during each few for from further had hadn't has hasn't have haven't having he her here
hers herself him himself his how i if in into is isn't it its itself just me more most my myself no
nor not now of off on once only or other our ours ourselves out over own same she should shouldn't
so some such than that the their theirs them themselves then there these they this those through to
too under until up very was wasn't we were weren't what when where which while who whom why will
with won't would wouldn't you your yours yourself yourselves
"""

_INVISIBLE = re.compile(
    "[\u00ad\u200c-\u200f\u202a-\u202e\u2060-\u2069\ufe00-\ufe0f\ufeff\U000e0100-\U000e01ef]+"
)
_APOSTROPHE = re.compile("[\u2018\u2019\u02bc]")
_HYPHEN = re.compile("[\u2010\u2212]")
_NEGATION = re.compile(r"(?<=[a-z])n't\b", re.IGNORECASE)
_CONTRACTION = re.compile(r"(?<=\w)'(?:s|d|m|ll|re|ve)\b", re.IGNORECASE)
_DIACRITICS = re.compile("[\u0300-\u036f]+")

# Letters of Chinese, Japanese, Korean, Thai, Lao, Myanmar and Khmer, which are written without
# blanks between words, or (Korean) with particles grown onto them.
_UNSPACED = (
    r"\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3041-\u3096\u3099\u309a\u309d-\u309f\u30a1-\u30fa"
    r"\u30fc-\u30ff\u3105-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    r"\uf900-\ufaff\U00020000-\U0003ffff\u1100-\u11ff\ua960-\ua97c\uac00-\ud7fb"
    r"\u0e01-\u0e2e\u0e30-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u0edc-\u0edf"
    r"\u1000-\u103f\u1050-\u108f\ua9e0-\ua9ef\uaa60-\uaa7f\u1780-\u17d3\u17d7\u17dc\u17dd"
)
_RUN = re.compile(f"[{_UNSPACED}]+")
_RUN_OR_CHUNK = re.compile(rf"[{_UNSPACED}]+|[^\s{_UNSPACED}]+")

# A chunk is cut by its shape, a string of the same length with a letter for each character's kind:
# u and l for upper and lower case, d digit, m mark upon the letter before it, p punctuation that
# may stand inside a name, f half of a flag, e emoji.
_FLAG_HALF = re.compile("[\U0001f1e6-\U0001f1ff]")
_EMOJI = re.compile(
    "[\u2300-\u23ff\u25a0-\u27bf\u2b00-\u2bff\U0001f000-\U0001f3fa\U0001f400-\U0001faff]"
)
_KIND_OF_CATEGORY = {"Lu": "u", "Lt": "u", "L": "l", "N": "d", "M": "m"}
_PIECE = re.compile("(?P<name>[uldmp]+)|ff?|e")
_WORD = re.compile("[uld][uldm]*")
_HUMP = re.compile("(?<=l)(?=u)|(?<=[ud])(?=ull)")  # HTTPServer and S3Bucket, not APIs and H2O

# What belongs to a name at its ends; anything else there is punctuation of the sentence.
_OPENING = re.compile(
    r"""(?: --?             # -rf, --force
        | (?:~|\.{1,2})?/   # /etc, ~/notes, ./run, ../up
        | (?<!\.)\.         # .env
        | _{1,2}            # __init__
        | [#@$%\\]          # #123, @someone, $HOME
        )$""",
    re.VERBOSE,
)
_CLOSING = re.compile(r"\+{1,2}|_{1,2}|[#%]")  # C++, __init__, C#, 50%


def index_words(*parts: str) -> list[str]:
    """Returns the words of a document in order, a repeated one as often as it is repeated."""
    words: list[str] = []
    for part in parts:
        for some in _words(part, _indexed):
            words += some
    return words


def query_words(text: str) -> list[str]:
    """Returns the first `MOST_IN_QUERY` different words of a query, to be asked for with OR.

    `x*` stands for every word that begins with x. Stop words are left out unless there is
    nothing else. Empty when the text holds no word at all.
    """
    return _first_words(text, without=_stop_words()) or _first_words(text, without=frozenset())


def _first_words(text: str, without: frozenset[str]) -> list[str]:
    found: dict[str, None] = {}
    for words in _words(text, _asked):
        found |= dict.fromkeys(word for word in words if word not in without)
        if len(found) >= MOST_IN_QUERY:
            break
    return list(found)[:MOST_IN_QUERY]


def _words(text: str, cut_run: Callable[[str], list[str]]) -> Iterator[Sequence[str]]:
    for piece in _RUN_OR_CHUNK.findall(_plain(text)):
        if not piece.isascii() and _RUN.match(piece):
            yield cut_run(piece)
        elif len(piece) > REMEMBERED_LONGEST:
            yield _cut_chunk(piece)
        else:
            yield _cut_short_chunk(piece)


def _plain(text: str) -> str:
    if not text.isascii():
        text = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text))
        text = _HYPHEN.sub("-", _APOSTROPHE.sub("'", text))
    if "'" in text:
        text = _CONTRACTION.sub(" ", _NEGATION.sub("nt", text))
    return text.replace("...", " ")


def _indexed(run: str) -> list[str]:
    """Every two characters that stand together, and the last one."""
    return [*map(add, run, run[1:]), run[-1]]


def _asked(run: str) -> list[str]:
    return list(map(add, run, run[1:])) or [f"{run}*"]


def _cut_chunk(chunk: str) -> tuple[str, ...]:
    shape = chunk.translate(_KINDS)
    words: list[str] = []
    for match in _PIECE.finditer(shape):
        piece = chunk[match.start() : match.end()]
        words += _cut_name(piece, match[0]) if match["name"] else [piece]
    return tuple(words)


_cut_short_chunk = lru_cache(REMEMBERED)(_cut_chunk)


def _cut_name(name: str, shape: str) -> list[str]:
    """The words of a name, then the whole of it when it is more than they."""
    spans = [match.span() for match in _WORD.finditer(shape)]
    words = [word for start, end in spans for word in _cut_word(name[start:end], shape[start:end])]
    return [*words, *_whole(name, spans)] if spans else []


def _cut_word(word: str, shape: str) -> list[str]:
    edges = [0, *(match.start() for match in _HUMP.finditer(shape)), len(word)]
    humps = [word[start:end] for start, end in pairwise(edges)]
    return [_stem(_fold(part)) for part in (humps if len(humps) == 1 else [*humps, word])]


def _whole(name: str, spans: list[tuple[int, int]]) -> list[str]:
    start, end = spans[0][0], spans[-1][1]
    opening, closing = _OPENING.search(name[:start]), _CLOSING.match(name, end)
    if len(spans) == 1 and not opening and not closing:
        return []
    whole = name[opening.start() if opening else start : closing.end() if closing else end]
    return [_fold(whole)[:LONGEST].rstrip("*")]


def _fold(text: str) -> str:
    if text.isascii():
        return text.lower()
    bare = _DIACRITICS.sub("", unicodedata.normalize("NFD", text.casefold()))
    return unicodedata.normalize("NFC", bare)


_stem_word = cast("Callable[[str], str]", Stemmer().stemWord)  # pyright: ignore[reportUnknownMemberType]  untyped
_stemming = threading.Lock()


@lru_cache(REMEMBERED)
def _stem(word: str) -> str:
    word = word[:LONGEST]
    if not (word.isascii() and word.isalpha()):
        return word
    with _stemming:  # the stemmer keeps the word it works on in itself
        return _stem_word(word)


@cache
def _stop_words() -> frozenset[str]:
    return frozenset(index_words(_STOP_WORDS))


class _Kinds(dict[int, str]):
    """The kind of each character, looked up when first met."""

    def __missing__(self, code: int) -> str:
        kind = _kind(chr(code))
        if kind != " ":  # or a text of unassigned characters would make this grow to a million
            self[code] = kind
        return kind


_KINDS = _Kinds()


def _kind(character: str) -> str:
    if character in PUNCTUATION:
        return "p"
    if _FLAG_HALF.match(character):
        return "f"
    if _EMOJI.match(character):
        return "e"
    category = unicodedata.category(character)
    return _KIND_OF_CATEGORY.get(category) or _KIND_OF_CATEGORY.get(category[0], " ")
