"""What the kernel bounds and counts for containers, by either version of its control groups."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
UNIFIED = (ROOT / "cgroup.controllers").exists()
PERIOD_MICROSECONDS = 100_000


class Container:
    """The memory of a running container, by the number of a process in it."""

    def __init__(self, pid: int) -> None:
        self._memory = _controller("memory") / _path(pid, "memory")

    @property
    def working_set(self) -> int:
        """Bytes that cannot simply be dropped, as files that were read can."""
        used, files = (
            ("memory.current", "inactive_file")
            if UNIFIED
            else ("memory.usage_in_bytes", "total_inactive_file")
        )
        return int(_read(self._memory / used)) - _counts(self._memory / "memory.stat")[files]

    @property
    def oom_kills(self) -> int:
        return _oom_kills(self._memory)


class SmallMachine:
    """A group that containers are put into (`cgroup_parent`) and together cannot outgrow."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._memory, self._cpu = (_controller(each) / name for each in ("memory", "cpu"))

    def bound_memory(self, most: int) -> None:
        limit = "memory.max" if UNIFIED else "memory.limit_in_bytes"
        (self._memory / limit).write_text(str(most))

    def bound_cpu(self, cores: float) -> None:
        quota = int(cores * PERIOD_MICROSECONDS)
        if UNIFIED:
            (self._cpu / "cpu.max").write_text(f"{quota} {PERIOD_MICROSECONDS}")
        else:
            (self._cpu / "cpu.cfs_period_us").write_text(str(PERIOD_MICROSECONDS))
            (self._cpu / "cpu.cfs_quota_us").write_text(str(quota))

    @property
    def peak(self) -> int:
        """The most bytes ever in use, the cache of files included."""
        name = "memory.peak" if UNIFIED else "memory.max_usage_in_bytes"
        return int(_read(self._memory / name))

    @property
    def oom_kills(self) -> int:
        return _oom_kills(self._memory)

    @property
    def cpu_seconds(self) -> float:
        if UNIFIED:
            return _counts(self._cpu / "cpu.stat")["usage_usec"] / 1e6
        return int(_read(_controller("cpuacct") / self.name / "cpuacct.usage")) / 1e9


@contextmanager
def small_machine(name: str) -> Iterator[SmallMachine]:
    """Needs root, and an engine whose cgroup driver is cgroupfs."""
    folders = {_controller(each) / name for each in ("memory", "cpu", "cpuacct")}
    for folder in folders:
        folder.mkdir(exist_ok=True)
    try:
        yield SmallMachine(name)
    finally:
        # The engine has made it for every other controller too.
        for folder in {each.resolve() for each in ROOT.glob(name if UNIFIED else f"*/{name}")}:
            _remove(folder)


def can_bound(driver: str) -> bool:
    return os.geteuid() == 0 and driver == "cgroupfs"


def _remove(folder: Path) -> None:
    """What the engine left empty in it goes too."""
    for inner in folder.iterdir():
        if inner.is_dir():
            inner.rmdir()
    folder.rmdir()


def _controller(name: str) -> Path:
    return ROOT if UNIFIED else ROOT / name


def _path(pid: int, controller: str) -> str:
    for line in Path(f"/proc/{pid}/cgroup").read_text("utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        if UNIFIED or controller in controllers.split(","):
            return path.lstrip("/")
    raise LookupError(pid)


def _read(file: Path) -> str:
    return file.read_text("utf-8").strip()


def _counts(file: Path) -> dict[str, int]:
    pairs = (line.split() for line in _read(file).splitlines())
    return {name: int(count) for name, count in pairs}


def _oom_kills(memory: Path) -> int:
    return _counts(memory / ("memory.events" if UNIFIED else "memory.oom_control"))["oom_kill"]
