"""Makes every experiment, prints what came of them, and writes the page with it."""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench.figures import machine
from experiments import contention, handshake, latency, meaning, racing, remote
from experiments.findings import ExperimentError, Finding, Sizes, page, table
from experiments.serving import Site, site
from memory_bridge.errors import ClientError

PAGE = Path(__file__).resolve().parents[2] / "docs" / "results.md"
Experiment = Callable[[Site, Sizes], Finding]
EXPERIMENTS: Mapping[str, Experiment] = {
    "handshake": handshake.measure,
    "race": racing.measure,
    "contention over HTTP": contention.measure,
    "contention on one file": contention.measure_on_one_file,
    "meaning": meaning.measure,
    "latency": latency.measure,
    "remote": remote.measure,
}
FAILURES = (ExperimentError, ClientError, AssertionError, OSError, subprocess.SubprocessError)


def attempted(name: str, place: Site, sizes: Sizes) -> Finding:
    """Returns its finding, also of one that broke off, so that the others are made."""
    sys.stderr.write(f"trying {name} …\n")
    try:
        return EXPERIMENTS[name](place, sizes)
    except FAILURES as error:
        return Finding(name, "to come to an end", f"broke off: {error}", holds=False, by_hand="")


def findings(sizes: Sizes) -> Sequence[Finding]:
    with (
        tempfile.TemporaryDirectory(prefix="memory-bridge-experiments-") as folder,
        site(Path(folder)) as place,
    ):
        return [attempted(name, place, sizes) for name in EXPERIMENTS]


def report(found: Sequence[Finding], file: Path) -> int:
    """Prints all, and writes the page unless something does not hold; returns the exit code."""
    print(table(found))
    failed = [finding.subject for finding in found if not finding.holds]
    if failed:
        print(f"\nDoes not hold: {', '.join(failed)}. {file} is left as it was.")
        return 1
    file.write_text(page(found, machine()), "utf-8")
    print(f"\nWritten to {file}")
    return 0


def main(sizes: Sizes, file: Path) -> int:
    return report(findings(sizes), file)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="experiments", description=__doc__)
    parser.add_argument("--page", type=Path, default=PAGE, metavar="FILE", help="(%(default)s)")
    sys.exit(main(Sizes(), parser.parse_args().page))
