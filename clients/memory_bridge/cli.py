"""The command `memory-bridge`. It reads its words first; what it needs then is imported then."""

import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from memory_bridge import __version__, exits, streams
from memory_bridge.arguments import is_text, with_stand_ins, without_passwords, without_stand_ins
from memory_bridge.commands import (
    Answer,
    Command,
    daemon,
    diff,
    facts,
    hammer,
    history,
    inspect,
    operations,
    search,
    serve,
    stats,
    stdio,
    tail,
    token,
    undo,
)
from memory_bridge.commands.common import add_common
from memory_bridge.commands.programs import Program
from memory_bridge.errors import ProtocolError

if TYPE_CHECKING:
    from memory_bridge.output import Screen

PROGRAMS = (
    diff.PROGRAM,
    undo.PROGRAM,
    inspect.PROGRAM,
    tail.PROGRAM,
    hammer.PROGRAM,
    token.PROGRAM,
    stdio.PROGRAM,
    daemon.PROGRAM,
)
COMMANDS = (*facts.COMMANDS, *search.COMMANDS, *history.COMMANDS, *stats.COMMANDS)

_EPILOG = f"""\
Without --url and --db the server at $MCP_URL is asked, or else the default database.
The token may also be given as $MCP_AUTH_TOKEN or in the file $MCP_AUTH_TOKEN_FILE, and the
client's name as $MCP_CLIENT_ID. A KEY, VALUE or QUERY that begins with a dash goes after --,
unless it is a number or the dash alone.

A command that asks no running server starts one for itself, which takes a second or two:
with $MCP_URL or --url it is answered at once.

token asks the server if there is a --url or $MCP_URL, and works on the store itself otherwise;
backup, restore FILE, export, import, check, retain and migrate-to work on the store itself, without
asking a server: on the file that --db names, or else on what the server's settings name.

{exits.EXPLAINED}"""


class _Parser(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        # What cannot be read is repeated, and it may be an address.
        super().error(without_passwords(message))


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
    parser = _parser()
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


def _parser() -> ArgumentParser:
    parser = _Parser(
        prog="memory-bridge",
        description="One memory that every MCP client shares.",
        epilog=_EPILOG,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    add_common(parser)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    commands.add_parser(serve.NAME, help=serve.HELP).set_defaults(command=None)
    for command in (*COMMANDS, *operations.OPERATIONS, *PROGRAMS):
        child = commands.add_parser(command.name, help=command.help, description=command.help)
        command.options(child)
        add_common(child)
        child.set_defaults(command=command)
    return parser
