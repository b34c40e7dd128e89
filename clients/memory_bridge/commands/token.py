"""Token: who may come in. It asks the running server, or works on the store itself."""

import re
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from memory_bridge.arguments import given
from memory_bridge.commands.common import add_common
from memory_bridge.commands.programs import Program, understanding
from memory_bridge.exits import NOTHING, OK, WrongUsageError

if TYPE_CHECKING:
    from memory_bridge.commands.offices import Office
    from memory_bridge.output import Screen

Answer = dict[str, Any]

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DURATION = re.compile(r"(\d{1,9})([smhdw])")
_LONGEST = timedelta(days=36_500)
_OVERLAP = "1h"
_SCOPES = ("read", "write", "admin")
_HEAD = ("name", "scopes", "namespaces", "expires", "last used", "state")
_ENDS = "ends within 5 seconds everywhere, requests under way included"


@dataclass(frozen=True)
class _Action:
    """What is asked of an office, and how its answer is shown to people."""

    name: str
    help: str
    options: Callable[[ArgumentParser], None]
    ask: Callable[["Office", Namespace], Answer]
    show: Callable[["Screen", Answer, "Office", Namespace], None]
    found: Callable[[Answer], bool] = lambda _answer: True


def duration(text: str) -> timedelta:
    match = _DURATION.fullmatch(text)
    if not match:
        raise ArgumentTypeError(f"{text} is not a length of time such as 90m, 12h, 30d or 2w")
    length = timedelta(**{_UNITS[match[2]]: int(match[1])})
    if length > _LONGEST:
        raise ArgumentTypeError(f"{text} is longer than a hundred years")
    return length


def end(text: str) -> timedelta | datetime:
    """A length of time from now, or a time; one without an offset is UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return duration(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _options(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    for action in _ACTIONS:
        child = actions.add_parser(action.name, help=action.help, description=action.help)
        action.options(child)
        add_common(child, namespace=False)
        child.set_defaults(action=action)


def _run(options: Namespace) -> int:
    from memory_bridge.commands.offices import office_for  # noqa: PLC0415  # --help does without
    from memory_bridge.output import Screen  # noqa: PLC0415

    if getattr(options, "namespace", None) is not None:
        raise WrongUsageError("A token's --namespace goes after `token create`.")
    screen = Screen(sys.stdout, sys.stderr)
    found = _do(options.action, office_for(options), options, screen)
    screen.flush()
    return OK if found else NOTHING


def _do(action: _Action, office: "Office", options: Namespace, screen: "Screen") -> bool:
    answer = action.ask(office, options)
    with understanding():
        if options.json:
            screen.json(answer)
        else:
            action.show(screen, answer, office, options)
        return action.found(answer)


def _create(office: "Office", options: Namespace) -> Answer:
    return office.create(
        name=options.name,
        scopes=options.scopes or ["write"],
        namespaces=options.namespaces,
        expires_at=_expiry(options.expires),
    )


def _expiry(given_end: timedelta | datetime | None) -> str | None:
    if given_end is None:
        return None
    from memory_bridge import clock  # noqa: PLC0415  # --help does without it

    moment = clock.now() + given_end if isinstance(given_end, timedelta) else given_end
    try:
        return moment.astimezone(UTC).isoformat(timespec="milliseconds")
    except OverflowError:
        raise WrongUsageError("--expires names a time that no calendar has.") from None


def _rotate(office: "Office", options: Namespace) -> Answer:
    return office.rotate(options.name, options.overlap.total_seconds())


def _show_rotated(screen: "Screen", made: Answer, office: "Office", options: Namespace) -> None:
    _show_secret(screen, made, office, options)
    screen.note(_told_of_the_old_one(options.overlap))


def _told_of_the_old_one(overlap: timedelta) -> str:
    if not overlap:
        return f"The old secret {_ENDS}."
    return f"The old secret stays good for {overlap}; --overlap 0s ends it at once."


def _show_secret(screen: "Screen", made: Answer, office: "Office", _options: Namespace) -> None:
    """The secret stands alone on stdout, so that it can go into a file or a variable."""
    screen.line(made["secret"])
    token = made["token"]
    what = ", ".join(token["scopes"])
    where = _namespaces(token, "every namespace")
    until = f"until {token['expires_at']}" if token.get("expires_at") else "with no end"
    screen.note(f"The token {token['name']}: {what}; {where}; {until}.")
    screen.note("Its secret is shown this once. With it in $MEMORY_BRIDGE_TOKEN, for Claude Code:")
    screen.note(
        f"  claude mcp add --transport http memory-bridge {office.url}"
        ' --header "Authorization: Bearer $MEMORY_BRIDGE_TOKEN"'
    )


def _namespaces(token: Answer, everywhere: str) -> str:
    reached = token.get("namespaces")
    return everywhere if reached is None else ", ".join(reached)


def _show_end(screen: "Screen", token: Answer, _office: "Office", _options: Namespace) -> None:
    screen.line(f"The token {token['name']} is revoked: it {_ENDS}.")


def _show_all(screen: "Screen", known: Answer, _office: "Office", _options: Namespace) -> None:
    if known["tokens"]:
        screen.table([_row(token) for token in known["tokens"]], _HEAD)
    else:
        screen.note("There are no tokens of clients yet: `memory-bridge token create NAME`.")


def _row(token: Answer) -> tuple[str, ...]:
    return (
        token["name"],
        " ".join(token["scopes"]),
        _namespaces(token, "all"),
        _when(token.get("expires_at"), "never"),
        _when(token.get("last_used_at"), "never"),
        _state(token),
    )


def _when(time: str | None, never: str) -> str:
    return never if time is None else time[:16].replace("T", " ")


def _state(token: Answer) -> str:
    from memory_bridge import clock  # noqa: PLC0415  # --help does without it

    if token.get("revoked_at"):
        return f"revoked {_when(token['revoked_at'], '')}"
    expires_at = token.get("expires_at")
    over = expires_at and datetime.fromisoformat(expires_at) <= clock.now()
    return "expired" if over else "good"


def _name(parser: ArgumentParser) -> None:
    parser.add_argument("name", type=given, metavar="NAME", help="whose it is, for the trail")


def _create_options(parser: ArgumentParser) -> None:
    _name(parser)
    parser.add_argument(
        "--scope",
        action="append",
        dest="scopes",
        choices=_SCOPES,
        help="what it allows: write (the default) includes read, admin both; repeatable",
    )
    parser.add_argument(
        "--namespace",
        action="append",
        dest="namespaces",
        type=given,
        metavar="NAME",
        help="a namespace that it reaches; repeatable; all of them unless given",
    )
    parser.add_argument(
        "--expires", type=end, metavar="WHEN", help="30d, 12h or a time such as 2027-01-31; never"
    )


def _rotate_options(parser: ArgumentParser) -> None:
    _name(parser)
    parser.add_argument(
        "--overlap",
        type=duration,
        default=_OVERLAP,
        metavar="TIME",
        help=f"how long the old secret stays good ({_OVERLAP}); 0s for one that leaked",
    )


_ACTIONS = (
    _Action("create", "make a token for a client", _create_options, _create, _show_secret),
    _Action(
        "list",
        "every token there ever was",
        lambda _parser: None,
        lambda office, _options: office.every(),
        _show_all,
        lambda known: bool(known["tokens"]),
    ),
    _Action(
        "revoke",
        "end a token for good",
        _name,
        lambda office, options: office.revoke(options.name),
        _show_end,
    ),
    _Action("rotate", "give a token a new secret", _rotate_options, _rotate, _show_rotated),
)

PROGRAM = Program(
    name="token",
    help="create, list, revoke or rotate the tokens of clients",
    options=_options,
    run=_run,
)
