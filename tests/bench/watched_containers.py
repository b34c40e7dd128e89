"""How much memory the containers of a stack take while something happens."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from cgroups import Container

from compose_stack import Stack

INTERVAL_SECONDS = 0.5


@dataclass
class Watched:
    """The most bytes of each service, and of all at the same moment."""

    peaks: dict[str, int] = field(default_factory=dict[str, int])
    peak: int = 0
    oom_kills: int = 0
    restarts: int = 0


@contextmanager
def watching(stack: Stack) -> Iterator[Watched]:
    containers = {each: _container(stack, each) for each in stack.services()}
    watched, over = Watched(), threading.Event()
    thread = threading.Thread(target=_watch, args=(watched, containers, over))
    thread.start()
    try:
        yield watched
    finally:
        over.set()
        thread.join()
    watched.oom_kills = sum(each.oom_kills for each in containers.values())
    watched.restarts = sum(stack.inspect(each)["RestartCount"] for each in containers)


def _container(stack: Stack, service: str) -> Container:
    return Container(stack.inspect(service)["State"]["Pid"])


def _watch(watched: Watched, containers: dict[str, Container], over: threading.Event) -> None:
    while not over.is_set():
        began = time.monotonic()
        with suppress(FileNotFoundError):  # one was restarted, which is counted at the end
            used = {service: each.working_set for service, each in containers.items()}
            watched.peak = max(watched.peak, sum(used.values()))
            watched.peaks = {
                service: max(bytes_now, watched.peaks.get(service, 0))
                for service, bytes_now in used.items()
            }
        over.wait(max(0.0, INTERVAL_SECONDS - (time.monotonic() - began)))
