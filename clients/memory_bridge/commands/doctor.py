"""Doctor: what is wrong with a server, and what to do about it."""

import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from memory_bridge.commands.programs import Program
from memory_bridge.exits import NOTHING, OK, WrongUsageError

if TYPE_CHECKING:
    from memory_bridge.daemon.files import Running
    from memory_bridge.doctor.findings import Finding
    from memory_bridge.doctor.target import Credentials, Target
    from memory_bridge.output import Screen
    from memory_bridge.settings import Address

_USUAL_URL = "http://127.0.0.1:8000/mcp"
_SECONDS = 10.0
_CURE = "  cure:              "
_WIDTH = 100
_WITHOUT_MEANING = ("db", "namespace")


def _options(_parser: ArgumentParser) -> None:
    pass


def _run(options: Namespace) -> int:
    from memory_bridge.doctor.examination import examine  # noqa: PLC0415  # --help does without
    from memory_bridge.output import Screen  # noqa: PLC0415

    target = _target(options)
    screen = Screen(sys.stdout, sys.stderr)
    findings: list[tuple[str, Finding]] = []
    for name, finding in examine(target):
        findings.append((name, finding))
        if not options.json:
            _show(screen, name, finding)
    is_well = all(finding.state != "failed" for _, finding in findings)
    if options.json:
        screen.json({"url": target.url, "well": is_well, "findings": _told(findings)})
    else:
        _sum_up(screen, findings)
    screen.flush()
    return OK if is_well else NOTHING


def _show(screen: "Screen", name: str, finding: "Finding") -> None:
    from textwrap import wrap  # noqa: PLC0415  # --help does without them

    from memory_bridge.excerpts import one_line  # noqa: PLC0415

    if finding.state == "unseen":
        return
    screen.line(f"{finding.state:<8} {name:<11} {one_line(finding.says)}")
    cure = one_line(finding.cure or "")
    for line in wrap(cure, _WIDTH, initial_indent=_CURE, subsequent_indent=" " * len(_CURE)):
        screen.line(line)
    screen.flush()


def _sum_up(screen: "Screen", findings: list[tuple[str, "Finding"]]) -> None:
    bad = [name for name, finding in findings if finding.state == "failed"]
    unseen = [name for name, finding in findings if finding.state == "unseen"]
    screen.line(f"\nNot well: {', '.join(bad)}." if bad else "\nAll is well.")
    if unseen:
        screen.line(f"Not looked at before that is: {', '.join(unseen)}.")


def _told(findings: list[tuple[str, "Finding"]]) -> list[dict[str, str | None]]:
    return [
        {"check": name, "state": it.state, "says": it.says, "cure": it.cure}
        for name, it in findings
    ]


def _target(options: Namespace) -> "Target":
    """Returns what is examined: `--url`, else `MCP_URL`, else the server in the background, else
    the usual address. Raises `WrongUsageError`."""
    from memory_bridge import memory, settings  # noqa: PLC0415  # --help does without them
    from memory_bridge.doctor.target import Target  # noqa: PLC0415

    for name in _WITHOUT_MEANING:
        if getattr(options, name, None) is not None:
            raise WrongUsageError(
                f"doctor looks at a running server, where --{name} has no place; `check` looks"
                " through a database."
            )
    address = settings.address()
    named: str | None = getattr(options, "url", None) or address.url
    background = None if named else _background()
    url = named or (background and background.url) or _USUAL_URL
    try:
        return Target(
            memory.endpoint_of(url),
            _credentials(options, address, background),
            timeout=getattr(options, "timeout", _SECONDS),
        )
    except ValueError as error:
        raise WrongUsageError(str(error)) from error


def _background() -> "Running | None":
    from memory_bridge import settings  # noqa: PLC0415  # --help does without them
    from memory_bridge.daemon.files import PID_FILE, PidFile  # noqa: PLC0415

    folder = settings.state_folder()
    try:
        return None if folder is None else PidFile(folder / PID_FILE).running()
    except OSError:
        return None


def _credentials(
    options: Namespace, address: "Address", background: "Running | None"
) -> "Credentials":
    """A token that cannot be had is a finding, not a wrong usage."""
    from memory_bridge.doctor.target import Credentials  # noqa: PLC0415  # --help does without it
    from memory_bridge.settings import token_in  # noqa: PLC0415

    token: str | None = getattr(options, "token", None)
    file: str | None = getattr(options, "token_file", None)
    if token and file:
        raise WrongUsageError("Give --token or --token-file, not both.")
    if not token and not file:
        token, file = address.token, address.token_file
    if not token and not file and background and background.token_file:
        file = str(background.token_file)
    if token or not file:
        return Credentials(token)
    try:
        return Credentials(token_in(file), file)
    except WrongUsageError as error:
        return Credentials(None, file, str(error))


PROGRAM = Program(
    name="doctor",
    help="what is wrong with a server, and what to do about it",
    options=_options,
    run=_run,
)
