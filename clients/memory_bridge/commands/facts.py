"""Facts: set, get, list, delete, restore."""

from argparse import ArgumentParser, Namespace
from functools import partial
from typing import TYPE_CHECKING

from memory_bridge import streams
from memory_bridge.arguments import json_object, number
from memory_bridge.commands import Answer, Command, narrowing, paging, show_rest, when
from memory_bridge.excerpts import excerpt, one_line
from memory_bridge.exits import WrongUsageError
from memory_bridge.messages import MAX_MESSAGE_BYTES

if TYPE_CHECKING:
    from memory_bridge.output import Screen


def _set_options(parser: ArgumentParser) -> None:
    parser.add_argument("key", metavar="KEY")
    parser.add_argument("value", metavar="VALUE", help="the text, or - for what stdin holds")
    parser.add_argument(
        "--tag", action="append", dest="tags", metavar="T", help="a tag; repeatable"
    )
    parser.add_argument("--metadata", type=json_object, metavar="JSON", help="a JSON object")
    parser.add_argument("--ttl", type=number, metavar="S", help="expires after S seconds")
    condition = parser.add_mutually_exclusive_group()
    condition.add_argument("--expect-version", type=int, metavar="N", help="only if it is at N")
    condition.add_argument("--expect-value", metavar="V", help="only if its value is V")
    condition.add_argument("--absent", action="store_true", help="only if there is none")
    parser.add_argument("--idempotency-key", metavar="K", help="a repeated K is applied once")


def _set_arguments(options: Namespace) -> Answer:
    return {
        "key": options.key,
        "value": _stdin() if options.value == "-" else options.value,
        "tags": options.tags,
        "metadata": options.metadata,
        "ttl_seconds": options.ttl,
        "expected_version": options.expect_version,
        "expected_value": options.expect_value,
        "require_absent": options.absent or None,
        "idempotency_key": options.idempotency_key,
    }


def _stdin() -> str:
    try:
        return streams.input_bytes(MAX_MESSAGE_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise WrongUsageError(
            f"stdin is not UTF-8: byte {error.object[error.start]:#04x} at offset {error.start}. "
            "Convert it first, for example with iconv."
        ) from error


def _show_written(screen: "Screen", answer: Answer, _options: Namespace) -> None:
    fact = answer["fact"]
    screen.line(f"{one_line(fact['key'])} is at version {fact['version']}")


def _get_options(parser: ArgumentParser) -> None:
    parser.add_argument("key", metavar="KEY")
    parser.add_argument("--at", type=_moment, metavar="VERSION|TIME", help="as it was then")


def _moment(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdigit() else text


def _show_value(screen: "Screen", answer: Answer, _options: Namespace) -> None:
    if answer["found"]:
        screen.value(answer["fact"]["value"])
    else:
        screen.note("There is no such fact.")


def _list_options(parser: ArgumentParser) -> None:
    narrowing(parser)
    paging(parser)


def _show_list(screen: "Screen", answer: Answer, _options: Namespace) -> None:
    head = ("KEY", "VER", "UPDATED (UTC)", "BY", "TAGS", "VALUE")
    rows = [
        (
            fact["key"],
            fact["version"],
            when(fact["updated_at"]),
            fact["source_client"],
            ",".join(fact["tags"]),
            partial(excerpt, fact["value"]),
        )
        for fact in answer["facts"]
    ]
    if rows:
        screen.table(rows, head)
    else:
        screen.note("There are no such facts.")
    show_rest(screen, answer)


def _delete_options(parser: ArgumentParser) -> None:
    parser.add_argument("key", metavar="KEY")
    parser.add_argument("--expect-version", type=int, metavar="N", help="only if it is at N")


def _show_removed(screen: "Screen", answer: Answer, _options: Namespace) -> None:
    fact = answer["removed"]
    screen.line(f"{one_line(fact['key'])} is removed; it was at version {fact['version']}")


def _restore_options(parser: ArgumentParser) -> None:
    parser.usage = (
        "memory-bridge restore [options] KEY VERSION   a fact, from an older version\n"
        "       memory-bridge restore [options] FILE          the whole store, from a backup"
    )
    parser.add_argument("key", metavar="KEY", help="of a fact; alone it is the FILE of a backup")
    parser.add_argument("version", type=int, nargs="?", metavar="VERSION")


COMMANDS = (
    Command(
        name="set",
        tool="memory_set",
        help="remember a value under a key",
        options=_set_options,
        arguments=_set_arguments,
        show=_show_written,
        creates=True,
    ),
    Command(
        name="get",
        tool="memory_get",
        help="print a value, exactly as it is when stdout is not a terminal",
        options=_get_options,
        arguments=lambda options: {"key": options.key, "at": options.at},
        show=_show_value,
        found=lambda answer: answer["found"],
    ),
    Command(
        name="list",
        tool="memory_list",
        help="list facts by key",
        options=_list_options,
        arguments=lambda options: {
            "prefix": options.prefix,
            "tags": options.tags,
            "limit": options.limit,
            "cursor": options.cursor,
        },
        show=_show_list,
        found=lambda answer: bool(answer["facts"]),
        pages="facts",
    ),
    Command(
        name="delete",
        tool="memory_delete",
        help="remove a fact; its history stays",
        options=_delete_options,
        arguments=lambda options: {
            "key": options.key,
            "expected_version": options.expect_version,
        },
        show=_show_removed,
    ),
    Command(
        name="restore",
        tool="memory_restore",
        help="write an older version again, as the next one; or put back a whole backup",
        options=_restore_options,
        arguments=lambda options: {"key": options.key, "version": options.version},
        show=_show_written,
    ),
)
