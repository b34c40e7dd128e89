"""The stack on a small machine, and what it takes without bounds.

`rehearsal.py [MINUTES]` runs all of it behind the sidecar's stand-in in the memory and, once it has
started, on the processor time of an e2-micro. `rehearsal.py --lean` bounds nothing together.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml
from cgroups import SmallMachine, can_bound, small_machine
from corpus import facts, questions
from figures import Figure, machine, percentile, table
from visitors import Visits, visit
from watched_containers import Watched, watching

from compose_stack import Stack, build_images
from compose_stack import inspect as engine_knows
from funnel_stack import HERE, FunnelStack

RESULTS = Path(__file__).resolve().parents[2] / "bench-results"
MINUTES = 10.0
FACTS, SEARCHES, STREAMS = 1_000, 200, 30
LEAN_FACTS, LEAN_MINUTES = 2_000, 2.0
MACHINE = "memory-bridge-rehearsal"
MACHINE_BYTES = 950 * 2**20
BURST_CORES, CORES = 2.0, 0.25
MOST_SEARCH_MS = 1_500
MOST_START_SECONDS = 30
OWN = ("gateway", "store", "embedder")
MB = 1_000_000


def rehearse(minutes: float) -> Iterator[Figure]:
    with small_machine(MACHINE) as small, _stack_on(small) as stack:
        small.bound_cpu(CORES)
        used, began = small.cpu_seconds, time.monotonic()
        with watching(stack) as watched:
            visits = visit(stack, facts(FACTS), questions(SEARCHES), STREAMS, minutes * 60)
        busy = (small.cpu_seconds - used) / (time.monotonic() - began)
        yield from _of_visits(visits)
        yield Figure("processor in use, of one core", busy * 100, "%")
        kills = watched.oom_kills + small.oom_kills
        yield Figure("processes killed for want of memory", kills, "", most=0)
        yield from _of_containers(watched)
        yield Figure("all of it, peak with cached files", small.peak / MB, "MB")


def measure_lean(minutes: float) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        stack = Stack(Path(folder))
        try:
            began = time.monotonic()
            stack.up()
            seconds = time.monotonic() - began
            yield Figure("make up to healthy", seconds, "s", most=MOST_START_SECONDS)
            with watching(stack) as watched:
                asked = questions(SEARCHES)
                visits = visit(stack, facts(LEAN_FACTS), asked, 0, minutes * 60)
            yield from _of_visits(visits)
            yield from _of_containers(watched)
            for service in OWN:
                image = engine_knows(stack.inspect(service)["Image"])
                yield Figure(f"image of the {service}, its base included", image["Size"] / MB, "MB")
        finally:
            stack.remove()


@contextmanager
def _stack_on(small: SmallMachine) -> Iterator[FunnelStack]:
    """Up and healthy after a burst of both cores, as a small machine grants it."""
    small.bound_memory(MACHINE_BYTES)
    small.bound_cpu(BURST_CORES)
    with tempfile.TemporaryDirectory() as folder:
        beside = Path(folder, "compose.json")
        services = ("gateway", "store", "embedder", "redis", "tailscale")
        beside.write_text(json.dumps(_put_into(small.name, services)), "utf-8")
        stack = FunnelStack(Path(folder), MEMORY_BRIDGE_COMPOSE=str(beside), HEALTH_INTERVAL="30s")
        try:
            stack.up()
            stack.wait_until_it_answers()
            yield stack
        finally:
            stack.remove()


def _put_into(group: str, services: Sequence[str]) -> Mapping[str, object]:
    """The stand-in's compose file, with every service in one control group."""
    beside = yaml.safe_load((HERE / "stand_in.yaml").read_text("utf-8"))
    for service in services:
        beside["services"].setdefault(service, {})["cgroup_parent"] = f"/{group}"
    return beside


def _of_visits(visits: Visits) -> Iterator[Figure]:
    searches = visits.search_milliseconds
    yield Figure("memory_search, p50", percentile(searches, 50), "ms")
    yield Figure("memory_search, p95", percentile(searches, 95), "ms", most=MOST_SEARCH_MS)
    yield Figure("memory_search, slowest", max(searches), "ms")
    yield Figure("searches by meaning", visits.by_meaning / len(searches) * 100, "%")
    yield Figure("memory_set, p50", percentile(visits.set_milliseconds, 50), "ms")
    yield Figure("memory_set, p95", percentile(visits.set_milliseconds, 95), "ms")
    yield Figure("facts without vectors at the end", visits.pending, "", most=0)
    yield Figure("calls that failed", visits.failed, "", most=0)
    yield Figure("idle streams that broke", visits.broken, "", most=0)


def _of_containers(watched: Watched) -> Iterator[Figure]:
    yield Figure("restarts of containers", watched.restarts, "", most=0)
    for service, peak in watched.peaks.items():
        yield Figure(f"{service}, peak working set", peak / MB, "MB")
    yield Figure("all containers at once, peak working set", watched.peak / MB, "MB")


def _cgroup_driver() -> str:
    command = ["docker", "info", "--format", "{{.CgroupDriver}}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.strip()


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="rehearsal.py", description=__doc__)
    parser.add_argument("minutes", type=float, nargs="?")
    parser.add_argument("--lean", action="store_true")
    given = parser.parse_args(arguments)
    if not given.lean and not can_bound(_cgroup_driver()):
        sys.stderr.write("This needs root, and a Docker engine whose cgroup driver is cgroupfs.\n")
        return 2
    build_images()
    if given.lean:
        figures = list(measure_lean(given.minutes or LEAN_MINUTES))
    else:
        figures = list(rehearse(given.minutes or MINUTES))
    sys.stdout.write(f"{table(figures)}\n")
    name = "lean" if given.lean else "rehearsal"
    RESULTS.mkdir(exist_ok=True)
    report = {"machine": machine(), "figures": [figure.as_json() for figure in figures]}
    path = RESULTS / time.strftime(f"{name}-%Y%m%d-%H%M%S.json", time.gmtime())
    path.write_text(json.dumps(report, indent=2), "utf-8")
    return 0 if all(figure.reached for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
