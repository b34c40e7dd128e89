"""Greets a server in both eras and tells which modules that took: `bare_handshake.py FOLDER URL`.

A script, for a Python that knows no installed packages; `FOLDER` holds `memory_bridge`, and the
token is on stdin.
"""

import json
import sys
import time

ERAS = ("handshake", "modern")


def greet(url, token, era):
    from memory_bridge import messages  # noqa: PLC0415  # found in the folder that was given
    from memory_bridge.client import Client  # noqa: PLC0415

    start = time.perf_counter()
    with Client.http(url, token=token, era=era, name="bare") as client:
        took = (time.perf_counter() - start) * 1000
        version = client.server.get("protocolVersion") or messages.MODERN_VERSION
        return {"version": version, "ms": took, "tools": len(client.list_tools())}


def main(folder, url):
    sys.path.append(folder)
    token = sys.stdin.read().strip()
    eras = [greet(url, token, era) for era in ERAS]
    known = sys.stdlib_module_names | {"memory_bridge", "__main__"}
    foreign = {name.partition(".")[0] for name in sys.modules} - known
    json.dump({"eras": eras, "foreign": sorted(foreign)}, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
