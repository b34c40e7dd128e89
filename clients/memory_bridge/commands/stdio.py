"""Stdio: the stub, for hosts that can only start a process."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING

from memory_bridge.commands.programs import Program
from memory_bridge.exits import OK, WrongUsageError

if TYPE_CHECKING:
    from memory_bridge.settings import Settings
    from memory_bridge.stub.wiring import Plan

# Hosts lose their patience after 60 seconds, most of them; they are told before that.
_SECONDS = 55.0
_ROOM = 256
_MOST_ROOM = 100_000
_WITHOUT_MEANING = ("db", "namespace")


def _options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--wake", metavar="CMD", help="starts the server, without a shell, when none answers"
    )
    parser.add_argument(
        "--queue", type=_room, default=_ROOM, metavar="N", help=f"calls that may wait ({_ROOM})"
    )


def _room(text: str) -> int:
    number = int(text)
    if not 1 <= number <= _MOST_ROOM:
        raise ArgumentTypeError(f"{text} is not a number from 1 to {_MOST_ROOM}")
    return number


def _run(options: Namespace) -> int:
    from memory_bridge import settings  # noqa: PLC0415  # --help does without them
    from memory_bridge.stub import serving  # noqa: PLC0415

    options.json = False  # its stdout is for messages of the protocol, whatever goes wrong
    for name in _WITHOUT_MEANING:
        if getattr(options, name, None):
            raise WrongUsageError(f"stdio passes on what its host says, so --{name} has no place.")
    try:
        serving.serve(_plan(options, settings.read()))
    except ValueError as error:
        raise WrongUsageError(str(error)) from error
    return OK


def _plan(options: Namespace, environment: "Settings") -> "Plan":
    from memory_bridge import memory  # noqa: PLC0415  # --help does without them
    from memory_bridge.stub.bridge import Terms  # noqa: PLC0415
    from memory_bridge.stub.wiring import Plan  # noqa: PLC0415

    url = getattr(options, "url", None) or environment.url
    if url is None:
        raise WrongUsageError("Say where the server is: --url http(s)://HOST[:PORT][/mcp].")
    _, client_id = memory.caller_of(options, environment)
    return Plan(
        url=memory.endpoint_of(url),
        read_token=_token_reader(options, environment),
        terms=Terms(getattr(options, "timeout", _SECONDS), options.queue, client_id),
        wake=options.wake,
        state_folder=environment.state_folder,
    )


def _token_reader(options: Namespace, environment: "Settings") -> Callable[[], str | None]:
    """A server that is to be started may make its token then; any other has one already."""
    from memory_bridge import memory  # noqa: PLC0415  # --help does without it

    def read() -> str | None:
        try:
            return memory.token_of(options, environment)
        except WrongUsageError:
            return None

    if options.wake is None:
        memory.token_of(options, environment)
    return read


PROGRAM = Program(
    name="stdio",
    help="pass on what a host says on stdin and stdout to the server at --url",
    options=_options,
    run=_run,
)
