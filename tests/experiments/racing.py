"""Two `memory-bridge hammer` at one key, until each has overwritten the other often enough."""

import json
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from bench.served import environment
from experiments.findings import Finding, Sizes
from experiments.serving import COMMAND, SECONDS, Site
from waiting import wait_until

KEY = "deploy/db-port"
EVERY = {"claude-code": "50ms", "cursor": "70ms"}


class Hammer:
    """One of the two; `told` is what it said so far."""

    def __init__(self, site: Site, name: str, token_file: Path) -> None:
        words = ["hammer", KEY, "--json", "--every", EVERY[name], *site.where(token_file)]
        self._process = subprocess.Popen(
            [*COMMAND, *words], stdout=subprocess.PIPE, text=True, env=environment({})
        )
        self.told: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def stop(self) -> None:
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(SECONDS)
        finally:
            self._process.kill()
        self._reader.join(SECONDS)

    def _read(self) -> None:
        self.told.extend(map(json.loads, self._process.stdout))


def overwritten(told: Sequence[dict[str, Any]]) -> Counter[str]:
    """How often somebody else put an end to a value, by whose it was."""
    pairs = [(it["event"]["source_client"], it["overwritten"]) for it in told]
    return Counter(last["client"] for who, last in pairs if last and last["client"] != who)


@contextmanager
def hammers(site: Site) -> Iterator[list[Hammer]]:
    tokens = {name: site.token_for(name) for name in EVERY}
    running: list[Hammer] = []
    try:
        running.extend(Hammer(site, name, token) for name, token in tokens.items())
        yield running
    finally:
        for hammer in running:
            hammer.stop()


def measure(site: Site, sizes: Sizes) -> Finding:
    with hammers(site) as (watched, _):

        def enough() -> bool:
            ended = overwritten([*watched.told])
            return all(ended[name] >= sizes.overwrites for name in EVERY)

        wait_until(enough, seconds=SECONDS, about=f"{sizes.overwrites} overwritten values each way")
    return judged(watched.told, sizes.overwrites)


def judged(told: Sequence[dict[str, Any]], overwrites: int) -> Finding:
    events = [it["event"] for it in told]
    lives = [it["overwritten"]["lived_ms"] for it in told if it["overwritten"]]
    ended = overwritten(told)
    seen_all = all(two["version"] == one["version"] + 1 for one, two in pairwise(events))
    proved = all(it["principal"] == f"token:{it['source_client']}" for it in events)
    by_whom = ", ".join(f"{count} of {name}'s" for name, count in sorted(ended.items()))
    return Finding(
        "live race for one key",
        f"each overwrites the other {overwrites} times; no value goes unseen; every name proved",
        f"{len(events)} values, overwritten by the other {by_whom}; a value lived {min(lives):.0f}"
        f" ms at least, {median(lives):.0f} in the middle, {max(lives):.0f} at most",
        holds=seen_all and proved and all(ended[name] >= overwrites for name in EVERY),
        by_hand="\n".join(
            f"memory-bridge hammer {KEY} --every {every} --client-id {name} --url $URL"
            f" --token-file $FILE{' &' if name != [*EVERY][-1] else ''}"
            for name, every in EVERY.items()
        ),
    )
