"""Measures everything and prints a table; with DATA, a LoCoMo file, search quality too."""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import calls
import chain
import commits
import follow
import live
import locomo
import ranks
import recall
import starts
import worker
from figures import Figure, machine, table
from served import CannotMeasure

import gateway
import store
from memory_bridge.client import ClientError

RESULTS = Path(__file__).resolve().parents[2] / "bench-results"
PARTS: dict[str, Callable[[], Iterator[Figure]]] = {
    "starts": starts.measure,
    "calls": calls.measure,
    "commits": commits.measure,
    "follow": follow.measure,
    "live": live.measure,
    "gateway": gateway.measure,
    "ranks": ranks.measure,
    "store": store.measure,
    "worker": worker.measure,
    "chain": chain.measure,
}
HYBRID_LEAST = 0.70
LEAD = 0.05


def recall_figures(results: dict[str, Any]) -> Iterator[Figure]:
    """The figures to reach, out of all that was measured."""
    scores = {mode: results["categories 1-4"][mode]["R@10"] for mode in recall.MODES}
    yield Figure("LoCoMo recall@10, hybrid", scores["hybrid"], "", least=HYBRID_LEAST)
    for other in ("lexical", "semantic"):
        yield Figure(f"LoCoMo recall@10, {other}", scores[other], "")
        lead = scores["hybrid"] - scores[other]
        yield Figure(f"LoCoMo recall@10, hybrid above {other}", lead, "", least=LEAD)


def _measured(parts: list[str]) -> Iterator[Figure]:
    for part in parts:
        sys.stderr.write(f"measuring {part} …\n")
        yield from PARTS[part]()


def _write(file: Path | None, report: dict[str, Any]) -> Path:
    path = file or RESULTS / time.strftime("%Y%m%d-%H%M%S.json", time.gmtime())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", "utf-8")
    return path


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="run.py", description=__doc__)
    parser.add_argument("data", nargs="?", type=Path, metavar="DATA")
    parser.add_argument("--json", type=Path, metavar="FILE", help="instead of bench-results/…")
    parser.add_argument(
        "--only", action="append", choices=PARTS, metavar="PART", help="one of %(choices)s; repeat"
    )
    parser.add_argument("--large", action="store_true", help="100,000 facts too, for a while")
    parser.add_argument("--strict", action="store_true", help="fail when a figure is missed")
    return parser.parse_args()


def _measure(arguments: argparse.Namespace) -> bool:
    """Returns whether every figure was reached."""
    report: dict[str, Any] = {"machine": machine()}
    conversations = locomo.read(arguments.data) if arguments.data else None
    figures = list(_measured(arguments.only or [*PARTS]))
    if arguments.large:
        sys.stderr.write("measuring large stores …\n")
        figures += store.measure_large()
    if conversations is not None:
        sys.stderr.write("measuring recall …\n")
        report["recall"] = recall.measure(conversations, recall.MODES, None)
        print(recall.table(report["recall"], recall.MODES), end="\n\n")
        figures += recall_figures(report["recall"])
    report["figures"] = [figure.as_json() for figure in figures]
    print(table(figures))
    print(f"\nWritten to {_write(arguments.json, report)}")
    return all(figure.reached for figure in figures)


def main() -> int:
    arguments = _arguments()
    try:
        reached = _measure(arguments)
    except (locomo.BadData, CannotMeasure, ClientError) as error:
        sys.stderr.write(f"run.py: {error}\n")
        return 2
    return 1 if arguments.strict and not reached else 0


if __name__ == "__main__":
    sys.exit(main())
