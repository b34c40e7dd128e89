"""The command `memory-bridge`. It reads its words first; what it needs then is imported then."""

import os
import sys
from argparse import (
    SUPPRESS,
    ArgumentParser,
    ArgumentTypeError,
    Namespace,
    RawDescriptionHelpFormatter,
)
from collections.abc import Sequence
from typing import TYPE_CHECKING

from memory_bridge import __version__, exits
from memory_bridge.commands import Answer, Command, facts, history, search, serve, stats
from memory_bridge.errors import ClientError, ProtocolError, ServerDied, ToolFailed

if TYPE_CHECKING:
    from memory_bridge.output import Screen

_WE_SAY = "memory-bridge: "
COMMANDS = (*facts.COMMANDS, *search.COMMANDS, *history.COMMANDS, *stats.COMMANDS)

_EPILOG = f"""\
Without --url and --db the server at $MCP_URL is asked, or else the default database.
The token may also be given as $MCP_AUTH_TOKEN or in the file $MCP_AUTH_TOKEN_FILE, and the
client's name as $MCP_CLIENT_ID. A KEY, VALUE or QUERY that begins with a dash goes after --,
unless it is a number or the dash alone.

A command that asks no running server starts one for itself, which takes a second or two:
with $MCP_URL or --url it is answered at once.

{exits.EXPLAINED}"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == [serve.NAME]:
        return serve.run(words[1:])
    parser = _parser()
    if any(not _is_text(word) for word in words):
        parser.error("the arguments are not UTF-8; convert them first")
    options = parser.parse_args(words)
    if options.command is None:
        parser.error(f"{serve.NAME} has options of its own and comes first")
    try:
        return _run(options.command, options)
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone; what is left in the buffer must not fail at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exits.BROKEN_PIPE


def _run(command: Command, options: Namespace) -> int:
    from memory_bridge.output import Screen  # noqa: PLC0415  # --help does without it

    screen = Screen(sys.stdout, sys.stderr)
    as_json: bool = getattr(options, "json", False)
    try:
        code = _ask(command, options, screen, as_json=as_json)
    except exits.WrongUsageError as error:
        screen.note(f"{_WE_SAY}{error}")
        code = exits.USAGE
    except ClientError as error:
        _show_error(error, screen, as_json=as_json)
        code = exits.code_of(error)
    screen.flush()
    return code


def _ask(command: Command, options: Namespace, screen: "Screen", *, as_json: bool) -> int:
    answer = _answer(command, options, screen)
    try:
        found = command.found(answer)
        screen.json(answer) if as_json else command.show(screen, answer, options)
    except (KeyError, TypeError) as error:
        raise ProtocolError(f"{command.tool} answered in a form that is unknown here.") from error
    return exits.OK if found else exits.NOTHING


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


def _show_error(error: ClientError, screen: "Screen", *, as_json: bool) -> None:
    if not isinstance(error, ToolFailed) or error.structured is None:
        screen.note(_said_by_its_own_server(error) or f"{_WE_SAY}{error}")
        return
    screen.note(f"{_WE_SAY}{error.problem.get('message', error)}")
    if as_json:
        screen.json(error.structured)
    elif current := error.problem.get("current"):
        screen.note(f"The value now: {current['value']}")


def _said_by_its_own_server(error: ClientError) -> str | None:
    """Returns the sentence with which a server that cannot serve ends."""
    words = error.last_words if isinstance(error, ServerDied) else ()
    return next((line for line in reversed(words) if line.startswith(_WE_SAY)), None)


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="memory-bridge",
        description="One memory that every MCP client shares.",
        epilog=_EPILOG,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    _add_common(parser)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    commands.add_parser(serve.NAME, help=serve.HELP).set_defaults(command=None)
    for command in COMMANDS:
        child = commands.add_parser(command.name, help=command.help, description=command.help)
        command.options(child)
        _add_common(child)
        child.set_defaults(command=command)
    return parser


def _add_common(parser: ArgumentParser) -> None:
    """Options that stand before or after the command; absent ones overwrite nothing."""
    common = parser.add_argument_group("common options")
    common.add_argument(
        "--url", type=_given, default=SUPPRESS, help="the server, http(s)://HOST[:PORT][/mcp]"
    )
    common.add_argument("--token", default=SUPPRESS, help="bearer token of the server")
    common.add_argument("--token-file", default=SUPPRESS, metavar="FILE", help="file holding it")
    common.add_argument(
        "--db", type=_given, default=SUPPRESS, metavar="FILE", help="a database file instead"
    )
    common.add_argument("--namespace", default=SUPPRESS, metavar="NAME", help="which memory")
    common.add_argument("--client-id", default=SUPPRESS, metavar="NAME", help="who is asking")
    common.add_argument(
        "--timeout", type=_timeout, default=SUPPRESS, metavar="S", help="seconds to wait (30)"
    )
    common.add_argument("--json", action="store_true", default=SUPPRESS, help="for programs")


def _is_text(word: str) -> bool:
    """A byte of the command line that is not UTF-8 arrives as a lone surrogate."""
    return not any("\ud800" <= character <= "\udfff" for character in word)


def _given(text: str) -> str:
    """An empty one is a variable that was not set: the default memory is not what it meant."""
    if not text:
        raise ArgumentTypeError("it is empty")
    return text


def _timeout(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise ValueError(text)
    return seconds
