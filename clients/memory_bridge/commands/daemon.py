"""Daemon: the server in the background."""

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from memory_bridge.commands.programs import Program
from memory_bridge.errors import Unreachable
from memory_bridge.exits import NOTHING, OK, WrongUsageError

if TYPE_CHECKING:
    from memory_bridge.daemon.control import Daemon, Plan
    from memory_bridge.daemon.files import Running
    from memory_bridge.output import Screen

_WITHOUT_MEANING = ("url", "token", "token_file", "namespace", "timeout")


def _options(parser: ArgumentParser) -> None:
    parser.add_argument("action", choices=("start", "stop", "status"))


def _run(options: Namespace) -> int:
    from memory_bridge.daemon.control import Daemon  # noqa: PLC0415  # --help does without them
    from memory_bridge.output import Screen  # noqa: PLC0415

    plan = _plan(options)
    screen = Screen(sys.stdout, sys.stderr)
    try:
        code = _act(options, Daemon(plan), plan, screen)
    except OSError as error:
        raise Unreachable(f"The server's files cannot be used: {error}.") from error
    screen.flush()
    return code


def _act(options: Namespace, daemon: "Daemon", plan: "Plan", screen: "Screen") -> int:
    if options.action == "stop":
        told = "It has ended." if daemon.stop() else "It was not running."
        _show(screen, None, plan, options, told)
        return OK
    running, told = daemon.running(), "It is running."
    if options.action == "start":
        running, is_new = daemon.start()
        told = "It is running now." if is_new else "It was running already."
    _show(screen, running, plan, options, told if running else "It is not running.")
    return OK if running else NOTHING


def _show(
    screen: "Screen", running: "Running | None", plan: "Plan", options: Namespace, told: str
) -> None:
    # It was perhaps started with other settings than those of now.
    token_file = (running and running.token_file) or plan.token_file
    places = {"token_file": str(token_file), "log": str(plan.folder / "daemon.log")}
    who = {"pid": running.pid, "url": running.url} if running else {}
    if options.json:
        screen.json({"running": running is not None, **who, **places})
        return
    screen.line(told)
    if running:
        rows = {"process": running.pid, "address": running.url, "token": places["token_file"]}
        screen.table([(name, str(value)) for name, value in {**rows, "log": places["log"]}.items()])


def _plan(options: Namespace) -> "Plan":
    from memory_bridge import settings  # noqa: PLC0415  # --help does without them
    from memory_bridge.daemon.control import Plan  # noqa: PLC0415

    for name in _WITHOUT_MEANING:
        if getattr(options, name, None) is not None:
            option = f"--{name.replace('_', '-')}"
            raise WrongUsageError(
                f"The daemon is started by its settings, so {option} has no place."
            )
    folder = settings.state_folder()  # all of the settings would want the token to be there by now
    if folder is None:
        raise WrongUsageError("There is no home folder for it: set MCP_MEMORY_STORE_DIR.")
    background = settings.background(folder)
    file: str | None = getattr(options, "db", None)
    return Plan(
        folder=folder,
        token_file=background.token_file,
        address=background.address,
        environment=background.environment,
        arguments=() if file is None else (str(Path(file).expanduser().absolute()),),
    )


PROGRAM = Program(
    name="daemon",
    help="start, stop or look for the server in the background",
    options=_options,
    run=_run,
)
