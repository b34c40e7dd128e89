"""What is typed: each kind of argument is read by a function that says what is wrong with it."""

import json
import math
import re
from argparse import ArgumentTypeError
from typing import Any

LONGEST_TIMEOUT_SECONDS = 86_400.0
LONGEST_INTERVAL_SECONDS = 3_600.0
_DEEPEST = 100
_DASHES = "--"
_CREDENTIALS = re.compile(r"://\S*@")
_INTERVAL = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ms|s|)", re.ASCII)
_IN_SECONDS = {"ms": 0.001, "s": 1.0, "": 1.0}
# No word is this: a lone surrogate stands for a byte that is not UTF-8, which is refused before.
_STAND_IN = "\ud800"


def is_text(word: str) -> bool:
    """A byte of the command line or environment that is not UTF-8 arrives as a lone surrogate."""
    return not any("\ud800" <= character <= "\udfff" for character in word)


def with_stand_ins(words: list[str]) -> list[str]:
    """argparse drops every `--` that it meets, not only the first, which ends the options."""
    end = words.index(_DASHES) if _DASHES in words else len(words)
    options = [_stand_in(word) if word.startswith(_DASHES) else word for word in words[:end]]
    values = [_STAND_IN if word == _DASHES else word for word in words[end + 1 :]]
    return [*options, *words[end : end + 1], *values]


def _stand_in(option: str) -> str:
    name, mark, value = option.partition("=")
    return f"{name}={_STAND_IN}" if mark and value == _DASHES else option


def without_stand_ins(value: Any) -> Any:
    if isinstance(value, list):
        return [without_stand_ins(item) for item in value]  # pyright: ignore[reportUnknownVariableType]  # what argparse collects is Any
    return _DASHES if value == _STAND_IN else value


def without_passwords(text: str) -> str:
    return _CREDENTIALS.sub("://…@", text)


def given(text: str) -> str:
    """An empty one is a variable that was not set: the default memory is not what it meant."""
    if not text:
        raise ArgumentTypeError("it is empty")
    return text


def number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ArgumentTypeError(f"{text} is not a number that can be compared")
    return value


def count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ArgumentTypeError(f"{text} is not a whole number from 0 on")
    return int(text)


def interval(text: str) -> float:
    """Returns the seconds of a short time; a bare number is of seconds."""
    match = _INTERVAL.fullmatch(text)
    if not match or (seconds := float(match[1]) * _IN_SECONDS[match[2]]) > LONGEST_INTERVAL_SECONDS:
        raise ArgumentTypeError(f"{text} is not a time such as 300ms, 2s or 1.5s, up to an hour")
    return seconds


def timeout(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds <= LONGEST_TIMEOUT_SECONDS:
        raise ArgumentTypeError(
            f"{text} is not a number of seconds above 0 and up to {LONGEST_TIMEOUT_SECONDS:.0f}"
        )
    return seconds


def json_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text, parse_constant=_no_json, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise ArgumentTypeError(f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ArgumentTypeError('not a JSON object such as {"source": "chat"}')
    _check(value)
    return value  # pyright: ignore[reportUnknownVariableType]  # JSON is Any


def _no_json(constant: str) -> float:
    raise ValueError(f"{constant} is no JSON number")


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError(f"{digits} is larger than any number that can be kept")
    return value


def _check(value: Any) -> None:
    """Raises `ArgumentTypeError` for what JSON can spell and no message can carry."""
    level: list[Any] = [value]
    for _ in range(_DEEPEST + 1):  # the last one holds the innermost values
        if not all(is_text(text) for text in level if isinstance(text, str)):
            raise ArgumentTypeError("it holds half of a surrogate pair, which is no character")
        level = [part for whole in level for part in _parts(whole)]
    if level:
        raise ArgumentTypeError(f"it is nested deeper than {_DEEPEST} levels")


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value, *value.values()]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # JSON is Any
    return value if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType]  # JSON is Any
