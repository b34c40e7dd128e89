"""Inspect: what is in the memory and what was asked of it."""

import sys
import threading
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from memory_bridge.arguments import count
from memory_bridge.commands import Answer, when
from memory_bridge.commands.programs import Program, understanding
from memory_bridge.exits import NOTHING, OK

if TYPE_CHECKING:
    from memory_bridge.commands.reaching import Reached
    from memory_bridge.following import Follower
    from memory_bridge.output import Cell, Screen
    from memory_bridge.rest import Query, RestClient

_LIMIT = 20
_REST_SECONDS = 0.5


@dataclass(frozen=True)
class _View:
    """What is looked at, and `news`: which events make it another."""

    ask: Callable[["RestClient", Namespace], Answer]
    show: Callable[["Screen", Answer], None]
    news: Callable[[Namespace], "Query"]


def _options(parser: ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--key", metavar="KEY", help="all that happened to this key, reads included")
    what.add_argument("--searches", action="store_true", help="who searched for what")
    parser.add_argument("--watch", action="store_true", help="again whenever something happens")
    parser.add_argument(
        "--limit", type=count, default=_LIMIT, metavar="N", help=f"the last N events ({_LIMIT})"
    )


def _run(options: Namespace) -> int:
    from memory_bridge.commands.reaching import reached  # noqa: PLC0415  # --help does without them
    from memory_bridge.output import Screen  # noqa: PLC0415

    view = _KEY if options.key is not None else _SEARCHES if options.searches else _OVERVIEW
    screen = Screen(sys.stdout, sys.stderr)
    with reached(options) as memory:
        if options.watch:
            _watch(view, memory, options, screen)
        found = _look(view, memory, options, screen)
    return OK if found else NOTHING


def _look(view: _View, memory: "Reached", options: Namespace, screen: "Screen") -> bool:
    """Shows the view as it is now and returns whether it holds anything."""
    with understanding():
        answer = view.ask(memory.rest, options)
        screen.json(answer) if options.json else view.show(screen, answer)
        screen.flush()
        return bool(answer["events"]) or "stats" in answer


def _watch(view: _View, memory: "Reached", options: Namespace, screen: "Screen") -> None:
    """Shows the view at first and after all that happens. Ends by what it raises alone."""
    from memory_bridge import settings  # noqa: PLC0415  # --help does without it

    news: SimpleQueue[Answer | BaseException | None] = SimpleQueue()
    follower = memory.follower(view.news(options), screen.note)
    threading.Thread(target=_listen, args=[follower, news], daemon=True).start()
    can_redraw = settings.can_redraw()
    _wait(news)
    while True:
        if not options.json:
            screen.begin_anew(can_redraw=can_redraw)
        _look(view, memory, options, screen)
        _wait(news)


def _listen(follower: "Follower", news: "SimpleQueue[Answer | BaseException | None]") -> None:
    """The first None says that from now on nothing is missed; the later ones say nothing."""
    try:
        is_following = False
        for event in follower.events():
            if event is not None or not is_following:
                news.put(event)
            is_following = True
    except BaseException as error:  # noqa: BLE001  # it is raised on the thread that waits
        news.put(error)


def _wait(news: "SimpleQueue[Answer | BaseException | None]") -> None:
    """Waits for something to happen; what follows closely is taken together with it."""
    told = news.get()
    if told is not None and not isinstance(told, BaseException):
        time.sleep(_REST_SECONDS)
    try:
        while not isinstance(told, BaseException):
            told = news.get_nowait()
    except Empty:
        return
    raise told


def _namespace(options: Namespace) -> "Query":
    namespace: str | None = getattr(options, "namespace", None)
    return [] if namespace is None else [("namespace", namespace)]


def _ask_overview(rest: "RestClient", options: Namespace) -> Answer:
    mine = _namespace(options)
    return {
        "stats": rest.call("GET", "stats", query=mine),
        **rest.call("GET", "namespaces"),
        "events": _events(rest, [*mine, ("limit", options.limit)]),
    }


def _events(rest: "RestClient", query: "Query") -> list[Answer]:
    return rest.call("GET", "events", query=query)["events"]


def _show_overview(screen: "Screen", answer: Answer) -> None:
    from memory_bridge.commands.stats import show_stats  # noqa: PLC0415  # --help does without it

    show_stats(screen, answer["stats"])
    if answer["namespaces"]:
        screen.line("")
        rows = [(each["name"], each["facts"]) for each in answer["namespaces"]]
        screen.table(rows, ("NAMESPACE", "FACTS"))
    if answer["events"]:
        screen.line("")
        _show_events(screen, answer)


def _show_events(screen: "Screen", answer: Answer) -> None:
    from memory_bridge.commands.events import show_events  # noqa: PLC0415  # as above

    show_events(screen, answer["events"])


def _of_key(options: Namespace) -> "Query":
    return [("namespace", getattr(options, "namespace", "default")), ("key", options.key)]


def _ask_key(rest: "RestClient", options: Namespace) -> Answer:
    query = [*_of_key(options), ("include_reads", "true"), ("limit", options.limit)]
    return {"key": options.key, "events": _events(rest, query)}


def _show_key(screen: "Screen", answer: Answer) -> None:
    from memory_bridge.commands.events import KEY, show_events  # noqa: PLC0415  # as above

    if answer["events"]:
        show_events(screen, answer["events"], without=(KEY,))
    else:
        screen.note("Nothing ever happened to this key.")


def _news_of_key(options: Namespace) -> "Query":
    namespace, (_, key) = _of_key(options)
    return [namespace, ("prefix", key), ("include_reads", "true")]


def _ask_searches(rest: "RestClient", options: Namespace) -> Answer:
    return {"events": _events(rest, [*_news_of_searches(options), ("limit", options.limit)])}


def _show_searches(screen: "Screen", answer: Answer) -> None:
    from memory_bridge.commands.events import who  # noqa: PLC0415  # as above

    rows = [
        (when(event["at"]), who(event), *_outcome(event["detail"])) for event in answer["events"]
    ]
    if rows:
        screen.table(rows, ("WHEN (UTC)", "WHO", "MODE", "FOUND", "BEST", "QUERY"))
    else:
        screen.note(
            "No search stands in the trail. One is there after a second, unless reads leave no"
            " events here (MCP_LOG_READS=off)."
        )


def _outcome(detail: Answer) -> "tuple[str, int, str, Cell]":
    """Returns how a search ranked, how many it found, which first, and what it was for."""
    from memory_bridge.excerpts import excerpt  # noqa: PLC0415  # as above

    found: list[Answer] = detail.get("found") or []
    best = f"{found[0]['key']} {found[0]['score']:.3f}" if found else ""
    return detail["mode"], len(found), best, partial(excerpt, detail["query"])


def _news_of_searches(options: Namespace) -> "Query":
    return [*_namespace(options), ("kinds", "search")]


_OVERVIEW = _View(_ask_overview, _show_overview, _namespace)
_KEY = _View(_ask_key, _show_key, _news_of_key)
_SEARCHES = _View(_ask_searches, _show_searches, _news_of_searches)

PROGRAM = Program(
    name="inspect",
    help="what is in the memory, what happened to a key, who searched for what",
    options=_options,
    run=_run,
)
