"""Two clients of different make count one key up at once, comparing and setting."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.findings import ExperimentError, Finding, Sizes
from experiments.serving import SECONDS, Site, run, value_of
from memory_bridge.memory import Memory

FOLDER = Path(__file__).parent
CONTENDERS = {"raw-client": "raw_contender.py", "official-sdk": "sdk_contender.py"}
KEY, NAMESPACE = "counter", "contention"
PAGE = 1_000


class Contender:
    """One of the clients, in a process of its own, which begins when it is told to."""

    def __init__(self, site: Site, script: str, token_file: Path, writes: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, FOLDER / script, site.url, token_file, NAMESPACE, KEY, str(writes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def wait_until_ready(self) -> None:
        if self._process.stdout.readline() != "ready\n":
            raise ExperimentError("A client that was to contend did not come up.")

    def begin(self) -> None:
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def tally(self) -> dict[str, Any]:
        out, _ = self._process.communicate(timeout=SECONDS)
        if self._process.returncode:
            raise ExperimentError(f"A contending client ended with {self._process.returncode}.")
        return json.loads(out)

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


def contended(site: Site, writes: int) -> list[dict[str, Any]]:
    tokens = {name: site.token_for(name) for name in CONTENDERS}
    contenders = [
        Contender(site, script, tokens[name], writes) for name, script in CONTENDERS.items()
    ]
    try:
        for contender in contenders:
            contender.wait_until_ready()
        for contender in contenders:
            contender.begin()
        return [contender.tally() for contender in contenders]
    finally:
        for contender in contenders:
            contender.end()


def written_by(memory: Memory) -> Counter[str]:
    """Whose writes the history has, by proved name."""
    by, asked = Counter(), {"key": KEY, "limit": PAGE}
    while True:
        answer = memory.call("memory_history", asked)
        sets = [it["principal"] for it in answer["events"] if it["kind"] == "set"]
        by += Counter(name.removeprefix("token:") for name in sets)
        if not (cursor := answer["next_cursor"]):
            return by
        asked = {**asked, "cursor": cursor}


def measure(site: Site, sizes: Sizes) -> Finding:
    tallies = contended(site, sizes.writes)
    with site.memory(NAMESPACE) as memory:
        return judged(tallies, int(value_of(memory, KEY)), written_by(memory), sizes.writes)


def judged(
    tallies: Sequence[dict[str, Any]], counted: int, by: Counter[str], writes: int
) -> Finding:
    total = writes * len(CONTENDERS)
    errors = sum(tally["errors"] for tally in tallies)
    tried_again = sum(tally["refused"] for tally in tallies)
    lost = sum(tally["written"] for tally in tallies) - counted
    shares = " and ".join(f"{count:,} by {name}" for name, count in sorted(by.items()))
    return Finding(
        "contention, two clients on one key over HTTP",
        f"{total:,} writes with expected_version; 0 errors, 0 lost updates",
        f"{counted:,} in the counter; in the history {shares}; {tried_again:,} conflicts tried"
        f" again; {errors} errors, {lost} lost",
        holds=errors == 0 and lost == 0 and counted == total and by.total() == total,
        by_hand=f"memory-bridge stress --clients 2 --writes {writes} --mode cas --url $URL"
        " --token-file $FILE",
    )


def measure_on_one_file(_site: Site, sizes: Sizes) -> Finding:
    words = ["stress", "--clients", "2", "--writes", str(sizes.writes)]
    told = json.loads(run(*words, "--json"))
    cas, blind = told["cas"], told["blind"]
    total = 2 * sizes.writes
    return Finding(
        "contention, two servers on one file",
        f"{total:,} writes with expected_version; 0 errors, 0 lost updates",
        f"{cas['written']:,} written, {cas['refused']:,} conflicts tried again,"
        f" {sum(cas['errors'].values())} errors, {cas['lost_updates']} lost; without a condition"
        f" {blind['lost_updates']:,} of {blind['written']:,} were lost",
        holds=cas["written"] == total and not cas["errors"] and cas["lost_updates"] == 0,
        by_hand=f"memory-bridge {' '.join(words)}",
    )
