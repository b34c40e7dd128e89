"""Completion: a script with which a shell asks what may stand next, and the answers."""

import sys
from argparse import ArgumentParser, Namespace

from memory_bridge.commands.programs import Program
from memory_bridge.exits import OK

_SHELLS = ("bash", "zsh", "fish", "powershell")


def _options(parser: ArgumentParser) -> None:
    parser.description = (
        "Prints a script that completes the commands and options of memory-bridge. For bash,"
        ' eval "$(memory-bridge completion bash)" goes into ~/.bashrc; for zsh the same with zsh'
        " into ~/.zshrc, after compinit; for fish, memory-bridge completion fish | source into"
        " config.fish; for PowerShell, memory-bridge completion powershell | Out-String |"
        " Invoke-Expression into $PROFILE."
    )
    parser.add_argument("shell", choices=_SHELLS, help="whose script it is")
    parser.add_argument("words", nargs="*", metavar="WORD", help="what such a script asks with")


def _run(options: Namespace) -> int:
    from memory_bridge import shells  # noqa: PLC0415  # --help does without them
    from memory_bridge.output import Screen  # noqa: PLC0415

    screen = Screen(sys.stdout, sys.stderr)
    if options.words:
        for line in _answers(options.shell, options.words):
            screen.line(line)
    else:
        screen.line(shells.SCRIPTS[options.shell])
    screen.flush()
    return OK


def _answers(shell: str, marked: list[str]) -> list[str]:
    """Returns what may stand for the last word, as the shell's script reads it."""
    from memory_bridge import parsing, shells  # noqa: PLC0415  # it knows this command too
    from memory_bridge.completions import candidates  # noqa: PLC0415  # as above

    *before, unfinished = (word.removeprefix(shells.MARK) for word in marked)
    found = candidates(parsing.parser(), before, unfinished)
    return [shells.line_of(candidate, shell) for candidate in found]


PROGRAM = Program(
    name="completion",
    help="a script for bash, zsh, fish or PowerShell that completes commands and options",
    options=_options,
    run=_run,
)
