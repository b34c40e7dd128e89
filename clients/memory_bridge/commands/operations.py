"""Operations on a whole store. The server's package does them: this only hands over to it."""

import importlib
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memory_bridge.commands import extras
from memory_bridge.errors import ToolFailed, Unreachable
from memory_bridge.excerpts import one_line
from memory_bridge.exits import WrongUsageError

if TYPE_CHECKING:
    from memory_bridge.output import Screen

STREAM = "-"
_OF_CLIENTS = ("url", "token", "token_file", "timeout", "namespace")


@dataclass(frozen=True)
class Operation:
    """`takes` names the options that are handed over, where they were given."""

    name: str
    help: str
    options: Callable[[ArgumentParser], None]
    takes: tuple[str, ...]


def meant(options: Namespace) -> Operation | None:
    """Returns the operation that was typed. `restore FILE` is one, `restore KEY VERSION` is not."""
    if isinstance(options.command, Operation):
        return options.command
    return RESTORE if options.command.name == "restore" and options.version is None else None


def run(operation: Operation, options: Namespace, screen: "Screen") -> bool:
    """Works on the store itself, with or without a server; returns whether all is well.

    Raises `WrongUsageError`, `Unreachable` when the extra is missing, and `ToolFailed`.
    """
    outcome = outcome_of(operation.name, _arguments(operation, options))
    # An export to stdout has that for itself.
    is_apart = operation.name == "export" and options.file == STREAM
    _show(outcome, screen, as_json=options.json, is_apart=is_apart)
    return outcome.is_good


def outcome_of(name: str, arguments: dict[str, Any]) -> Any:
    """Has the server's package do an operation and returns its `Outcome`.

    Raises `Unreachable` when the extra is missing, and `ToolFailed`.
    """
    try:
        outcome = importlib.import_module("memory_store.operations.main").run(name, **arguments)
    except ModuleNotFoundError as missing:
        raise Unreachable(extras.hint(missing)) from missing
    if outcome.problem is not None:
        raise _refusal(name, outcome.problem)
    return outcome


def _arguments(operation: Operation, options: Namespace) -> dict[str, Any]:
    from memory_bridge import settings  # noqa: PLC0415  # --help does without it

    given = {name: value for name, value in vars(options).items() if value is not None}
    if operation is RESTORE:
        given["file"] = options.key
    for name in _OF_CLIENTS:
        if name in given and name not in operation.takes:
            raise WrongUsageError(
                f"{operation.name} works on the store itself, so --{name.replace('_', '-')} has no"
                " place here: name a file with --db, or none for the store of the settings."
            )
    given.setdefault("client_id", settings.read().client_id)
    return {name: given[name] for name in ("db", "client_id", *operation.takes) if name in given}


def _refusal(name: str, problem: dict[str, Any]) -> ToolFailed:
    text = {"type": "text", "text": problem["message"]}
    return ToolFailed(name, {"content": [text], "structuredContent": {"problem": problem}})


def _show(outcome: Any, screen: "Screen", *, as_json: bool, is_apart: bool) -> None:
    if is_apart:
        for sentence in outcome.sentences:
            screen.note(sentence)
    elif as_json:
        screen.json(outcome.answer)
    else:
        for sentence in outcome.sentences:
            screen.line(one_line(sentence))


def _backup_options(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")


def _export_options(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="or - for stdout")
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")


def _import_options(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="or - for stdin")
    parser.add_argument("--dry-run", action="store_true", help="write nothing, say what would be")
    parser.add_argument(
        "--on-duplicate",
        choices=("skip", "overwrite", "fail"),
        help="what happens to a key that holds something else already (skip)",
    )


def _check_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--repair", action="store_true", help="make anew what is made from the facts"
    )


def _retain_options(parser: ArgumentParser) -> None:
    parser.add_argument("--days", type=int, required=True, metavar="N", help="keep the last N days")
    parser.add_argument("--archive", metavar="FILE", help="beside the database unless said")
    parser.add_argument(
        "--versions", action="store_true", help="replaced versions too; never the newest one"
    )


def _migrate_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "target", metavar="TARGET", help="postgresql://user@host/database, or a new SQLite file"
    )
    parser.add_argument("--dry-run", action="store_true", help="move nothing, say what would be")


RESTORE = Operation(
    name="restore",
    help="put a backup in the place of the store",
    options=lambda _parser: None,
    takes=("file",),
)
OPERATIONS = (
    Operation(
        name="backup",
        help="copy the store to a file, while it is in use",
        options=_backup_options,
        takes=("file", "force"),
    ),
    Operation(
        name="export",
        help="write every fact, version and event as JSON Lines",
        options=_export_options,
        takes=("file", "force"),
    ),
    Operation(
        name="import",
        help="read an export, or a file of server-memory",
        options=_import_options,
        takes=("file", "dry_run", "on_duplicate", "namespace"),
    ),
    Operation(
        name="check",
        help="whether the store agrees with itself",
        options=_check_options,
        takes=("repair",),
    ),
    Operation(
        name="retain",
        help="archive events older than N days, then delete them",
        options=_retain_options,
        takes=("days", "archive", "versions"),
    ),
    Operation(
        name="migrate-to",
        help="move the whole store to Postgres, or from there to a file",
        options=_migrate_options,
        takes=("target", "dry_run"),
    ),
)
