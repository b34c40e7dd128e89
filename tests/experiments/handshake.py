"""A handshake of both eras by a Python that can import nothing but the standard library and us."""

import json
import subprocess
import sys
from pathlib import Path

import memory_bridge
from experiments.findings import ExperimentError, Finding, Sizes
from experiments.serving import SECONDS, Site
from gateway_serving import TOKEN

SCRIPT = Path(__file__).with_name("bare_handshake.py")
OURS = Path(memory_bridge.__file__).parents[1]


def measure(site: Site, _sizes: Sizes) -> Finding:
    told = greeted(site.url)
    eras = told["eras"]
    shown = ", ".join(f"{it['version']} in {it['ms']:.1f} ms" for it in eras)
    tools = {it["tools"] for it in eras}
    foreign = ", ".join(told["foreign"]) or "none"
    return Finding(
        "handshake without an SDK",
        "both eras; no module but the standard library's and our own",
        f"{shown}, {', '.join(map(str, tools))} tools each; other modules: {foreign}",
        holds=not told["foreign"] and len(eras) == 2 and tools != {0},
        by_hand=f"python -I -S tests/experiments/{SCRIPT.name} clients $URL <$FILE",
    )


def greeted(url: str) -> dict:
    """`-S` leaves out what is installed, `-I` what the environment would add."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(SCRIPT), str(OURS), url],
        input=TOKEN,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode:
        raise ExperimentError(f"The handshake failed: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout)
