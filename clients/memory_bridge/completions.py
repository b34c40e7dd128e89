"""What may stand next on the command line: asked of the parser itself, so nothing is said twice."""

from argparse import SUPPRESS, Action, ArgumentParser
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

FILES = ":files"
_OF_FILES = "FILE"


@dataclass(frozen=True)
class Candidate:
    """What may stand on the line. The word `FILES` stands for the name of any file."""

    word: str
    meaning: str = ""


@dataclass
class _Reader:
    """Reads the words before the one that is completed, as the parser would."""

    parser: ArgumentParser
    awaited: Action | None = None
    positionals: list[Action] = field(default_factory=list[Action])
    only_positionals: bool = False

    def __post_init__(self) -> None:
        self._enter(self.parser)

    def read(self, word: str) -> None:
        if self.awaited is not None:
            self.awaited = None
        elif word == "--" and not self.only_positionals:
            self.only_positionals = True
        elif word.startswith("-") and len(word) > 1 and not self.only_positionals:
            self._read_option(word)
        elif self.positionals:
            self._read_positional(word)

    def options(self) -> Iterator[Action]:
        return (action for action in _actions(self.parser) if action.option_strings)

    def _read_option(self, word: str) -> None:
        named = (action for action in self.options() if word in action.option_strings)
        option = next(named, None)
        self.awaited = option if option is not None and _takes_value(option) else None

    def _read_positional(self, word: str) -> None:
        action = self.positionals.pop(0)
        if action.nargs == "*":
            self.positionals.insert(0, action)
        chosen = action.choices
        if isinstance(chosen, dict) and word in chosen:
            self._enter(chosen[word])  # pyright: ignore[reportUnknownArgumentType]  # a parser for each command

    def _enter(self, parser: ArgumentParser) -> None:
        self.parser = parser
        self.positionals = [each for each in _actions(parser) if not each.option_strings]


def candidates(parser: ArgumentParser, before: Sequence[str], word: str) -> list[Candidate]:
    """Returns what may stand in place of the unfinished word, behind the words before it."""
    reader = _Reader(parser)
    for each in before:
        reader.read(each)
    found = _possible(reader, word)
    return [each for each in found if each.word.startswith(word) or each.word == FILES]


def _possible(reader: _Reader, word: str) -> Iterator[Candidate]:
    if reader.awaited is not None:
        yield from _values(reader.awaited)
    elif word.startswith("-") and not reader.only_positionals:
        yield from map(_named, reader.options())
    elif reader.positionals:
        yield from _values(reader.positionals[0])


def _named(option: Action) -> Candidate:
    # The longest of its names says most.
    return Candidate(max(option.option_strings, key=len), _meaning(option))


def _values(action: Action) -> Iterator[Candidate]:
    meanings = {each.dest: _meaning(each) for each in _subactions(action)}
    for choice in action.choices or ():
        yield Candidate(str(choice), meanings.get(str(choice), ""))
    if not action.choices and action.metavar == _OF_FILES:
        yield Candidate(FILES)


def _takes_value(option: Action) -> bool:
    return option.nargs != 0


def _meaning(action: Action) -> str:
    text = action.help or ""
    return "" if text == SUPPRESS else " ".join(text.split())


def _actions(parser: ArgumentParser) -> list[Action]:
    return parser._actions  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # argparse has no other way to ask


def _subactions(action: Any) -> list[Action]:
    return list(action._get_subactions()) if isinstance(action.choices, dict) else []  # noqa: SLF001  # as above
