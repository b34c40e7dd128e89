"""The parser of the whole command line."""

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from typing import NoReturn

from memory_bridge import __version__, exits
from memory_bridge.arguments import without_passwords
from memory_bridge.commands import (
    completion,
    daemon,
    diff,
    doctor,
    facts,
    hammer,
    history,
    inspect,
    lock_demo,
    operations,
    search,
    serve,
    stats,
    stdio,
    stress,
    tail,
    token,
    undo,
)
from memory_bridge.commands.common import add_common

PROGRAMS = (
    diff.PROGRAM,
    undo.PROGRAM,
    inspect.PROGRAM,
    tail.PROGRAM,
    hammer.PROGRAM,
    stress.PROGRAM,
    lock_demo.PROGRAM,
    token.PROGRAM,
    doctor.PROGRAM,
    stdio.PROGRAM,
    daemon.PROGRAM,
    completion.PROGRAM,
)
COMMANDS = (*facts.COMMANDS, *search.COMMANDS, *history.COMMANDS, *stats.COMMANDS)

_EPILOG = f"""\
Without --url and --db the server at $MCP_URL is asked, or else the default database.
The token may also be given as $MCP_AUTH_TOKEN or in the file $MCP_AUTH_TOKEN_FILE, and the
client's name as $MCP_CLIENT_ID. A KEY, VALUE or QUERY that begins with a dash goes after --,
unless it is a number or the dash alone.

A command that asks no running server starts one for itself, which takes a second or two:
with $MCP_URL or --url it is answered at once. stress and lock-demo write to a temporary database
unless stress is given --url or --db.

doctor looks at the server of --url, $MCP_URL, `daemon` or port 8000, in this order: whether it can
be reached, trusted and used. What is not well comes with its cure, and ends in 1.

token asks the server if there is a --url or $MCP_URL, and works on the store itself otherwise;
backup, restore FILE, export, import, check, retain and migrate-to work on the store itself, without
asking a server: on the file that --db names, or else on what the server's settings name.

{exits.EXPLAINED}"""


class _Parser(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        # What cannot be read is repeated, and it may be an address.
        super().error(without_passwords(message))


def parser() -> ArgumentParser:
    whole = _Parser(
        prog="memory-bridge",
        description="One memory that every MCP client shares.",
        epilog=_EPILOG,
        formatter_class=RawDescriptionHelpFormatter,
    )
    whole.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    add_common(whole)
    commands = whole.add_subparsers(required=True, metavar="COMMAND")
    served = commands.add_parser(serve.NAME, help=serve.HELP)
    serve.options(served)
    served.set_defaults(command=None)
    for command in (*COMMANDS, *operations.OPERATIONS, *PROGRAMS):
        child = commands.add_parser(command.name, help=command.help, description=command.help)
        command.options(child)
        add_common(child)
        child.set_defaults(command=command)
    return whole
