"""Counts a key up with the raw client: `raw_contender.py URL TOKEN_FILE NAMESPACE KEY WRITES`.

A script; it says `ready`, begins when stdin does, and ends with its tally as JSON.
"""

import json
import sys
from pathlib import Path

from memory_bridge.client import Client
from memory_bridge.contention import Load, contend
from memory_bridge.memory import Memory


def main(url, token_file, namespace, key, writes):
    token = Path(token_file).read_text("utf-8").strip()
    with Client.http(url, token=token, name="raw") as client:
        print("ready", flush=True)
        sys.stdin.readline()
        load = Load(int(writes), (key,), compares=True)
        tally = contend(load, [Memory(client, namespace, None)]).tally
    json.dump(
        {"written": tally.written, "refused": tally.refused, "errors": tally.errors.total()},
        sys.stdout,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
