"""The command `memory-bridge`. It reads its words first; what it needs then is imported then."""

import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from memory_bridge import exits, parsing, streams
from memory_bridge.arguments import is_text, with_stand_ins, without_stand_ins
from memory_bridge.commands import Answer, Command, completion, operations, serve
from memory_bridge.commands.programs import Program
from memory_bridge.errors import ProtocolError

if TYPE_CHECKING:
    from memory_bridge.output import Screen

PROGRAMS = parsing.PROGRAMS
COMMANDS = parsing.COMMANDS


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code.

    Raises nothing but the `SystemExit` of argparse: whatever else there is becomes a sentence.
    """
    streams.give_notes_a_place()
    try:
        return _run(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    except BrokenPipeError:
        return exits.BROKEN_PIPE


def _run(words: list[str]) -> int:
    options = Namespace(json=False, debug=False)
    try:
        if words[:1] == [serve.NAME]:
            return serve.run(words[1:])
        return _obey(_parsed(words, options))
    except (SystemExit, KeyboardInterrupt, BrokenPipeError):
        raise
    except BaseException as error:  # noqa: BLE001  # the last resort: no traceback leaves
        from memory_bridge import failures  # noqa: PLC0415  # it is seldom needed

        return failures.tell(error, as_json=options.json, debug=options.debug)


def _parsed(words: list[str], options: Namespace) -> Namespace:
    parser = parsing.parser()
    if not all(map(is_text, words)):
        parser.error("the arguments are not UTF-8; convert them first")
    try:
        parser.parse_args(with_stand_ins(words), options)
    finally:
        streams.flush_output()  # what --help and --version print is an answer too
    if options.command is None:
        parser.error(f"{serve.NAME} has options of its own and comes first")
    for name, value in vars(options).items():
        setattr(options, name, without_stand_ins(value))
    return options


def _obey(options: Namespace) -> int:
    streams.require_output()
    if options.command is not completion.PROGRAM:  # a shell asks that while somebody types
        _tell_of_misspelled_settings()
    if isinstance(options.command, Program):
        return options.command.run(options)
    from memory_bridge.output import Screen  # noqa: PLC0415  # --help does without it

    screen = Screen(sys.stdout, sys.stderr)
    if (operation := operations.meant(options)) is not None:
        found = operations.run(operation, options, screen)
    else:
        found = _ask(options.command, options, screen)
    screen.flush()
    return exits.OK if found else exits.NOTHING


def _tell_of_misspelled_settings() -> None:
    from memory_bridge import settings  # noqa: PLC0415  # --help does without them

    for name, near in settings.misspelled().items():
        sys.stderr.write(f"{name} is not a setting and has no effect. Did you mean {near}?\n")


def _ask(command: Command, options: Namespace, screen: "Screen") -> bool:
    """Shows what the memory answers and returns whether that holds anything."""
    answer = _answer(command, options, screen)
    try:
        found = command.found(answer)
        screen.json(answer) if options.json else command.show(screen, answer, options)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise ProtocolError(f"{command.tool} answered in a form that is unknown here.") from error
    return found


def _answer(command: Command, options: Namespace, screen: "Screen") -> Answer:
    from memory_bridge import memory, settings  # noqa: PLC0415  # --help does without them

    environment = settings.read()
    arguments = command.arguments(options)
    client = memory.client_for(options, environment)
    new = memory.missing_database(options)
    if new and not command.creates:
        raise exits.WrongUsageError(f"There is no database {new}; `set` would create it.")
    with client:
        if new:
            screen.note(f"Created the database {new}.")
        mine = memory.Memory(client, *memory.caller_of(options, environment))
        if command.pages and options.all:
            return mine.call_all(command.tool, arguments, command.pages)
        return mine.call(command.tool, arguments)
