"""A figure that was measured, beside the one to reach."""

import os
import platform
import sqlite3
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Figure:
    """`most` and `least` are what is to be reached; without either it is for information."""

    name: str
    value: float
    unit: str
    most: float | None = None
    least: float | None = None

    @property
    def reached(self) -> bool:
        enough = self.least is None or self.value >= self.least
        return enough and (self.most is None or self.value <= self.most)

    @property
    def target(self) -> str:
        if self.most is not None:
            return f"≤ {self.most:g}"
        return "" if self.least is None else f"≥ {self.least:g}"

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"reached": self.reached}


def table(figures: Sequence[Figure]) -> str:
    width = max(len(figure.name) for figure in figures)
    head = f"{'figure':{width}}{'measured':>11} {'unit':8}{'to reach':>9}"
    return "\n".join([head, *(_row(figure, width) for figure in figures)])


def _row(figure: Figure, width: int) -> str:
    verdict = ("  ok" if figure.reached else "  MISSED") if figure.target else ""
    measured = f"{figure.value:>11.4g}" if figure.value < 1000 else f"{figure.value:>11,.0f}"
    return f"{figure.name:{width}}{measured} {figure.unit:8}{figure.target:>9}{verdict}"


def milliseconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return (time.perf_counter() - start) * 1000


def percentile(values: Sequence[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def machine() -> dict[str, Any]:
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "load": os.getloadavg() if hasattr(os, "getloadavg") else None,
        "system": platform.platform(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.machine())
