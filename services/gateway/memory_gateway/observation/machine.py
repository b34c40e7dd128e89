"""What the machine has, where it says so: Linux does."""

import re
from collections.abc import Iterator
from pathlib import Path

from memory_gateway.observation.metrics import Gauges

MEMORY = Path("/proc/meminfo")
_LINE = re.compile(r"^(MemTotal|MemAvailable): +(\d+) kB$", re.MULTILINE)


def machine_gauges(file: Path = MEMORY) -> Gauges:
    """A container sees the memory of the whole machine, and not its own limit."""

    def read() -> Iterator[tuple[str, str, float]]:
        try:
            found = dict(_LINE.findall(file.read_text("ascii")))
        except OSError:
            return
        for name, line in (("", "MemTotal"), ("_available", "MemAvailable")):
            if line in found:
                yield f"machine_memory{name}_bytes", "Of the machine.", int(found[line]) * 1024

    return read
