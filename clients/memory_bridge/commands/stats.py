"""Stats: counts and sizes."""

from argparse import ArgumentParser
from typing import TYPE_CHECKING

from memory_bridge.commands import Answer, Command

if TYPE_CHECKING:
    from memory_bridge.output import Screen


def _options(_parser: ArgumentParser) -> None:
    pass


def show_stats(screen: "Screen", answer: Answer) -> None:
    screen.table([(name.replace("_", " "), _plain(value)) for name, value in answer.items()])


def _plain(value: object) -> str:
    if isinstance(value, dict):
        parts: dict[str, object] = value  # pyright: ignore[reportUnknownVariableType]  # JSON is Any
        return ", ".join(f"{name} {part}" for name, part in parts.items() if part is not None)
    return "-" if value is None else str(value)


COMMANDS = (
    Command(
        name="stats",
        tool="memory_stats",
        help="counts, sizes, what awaits its embedding",
        options=_options,
        arguments=lambda _options: {},
        show=lambda screen, answer, _options: show_stats(screen, answer),
    ),
)
