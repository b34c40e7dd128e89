"""Starts and stops the server in the background, and says whether there is one."""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from memory_bridge import processes
from memory_bridge.daemon.files import PID_FILE, Log, PidFile, Running, keep_token
from memory_bridge.deadline import Deadline
from memory_bridge.errors import Unreachable
from memory_bridge.exits import USAGE, WrongUsageError

_START_SECONDS = 60.0
_STOP_SECONDS = 10.0
_LOOK_SECONDS = 0.05
_PROBE_SECONDS = 2.0
_LISTENING = "listening on "
_LAST_WORDS = 5


@dataclass(frozen=True)
class Plan:
    """Where the files of the server lie, where it listens, and what it is started with."""

    folder: Path
    token_file: Path
    address: tuple[str, int]
    environment: Mapping[str, str]
    arguments: Sequence[str] = ()


class Daemon:
    """What it raises is `Unreachable`, with a sentence, and OSError; `start` also raises
    `WrongUsageError` where the server refuses a setting."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._pid_file = PidFile(plan.folder / PID_FILE)
        self.log = plan.folder / "daemon.log"

    def running(self) -> Running | None:
        return self._pid_file.running()

    def start(self) -> tuple[Running, bool]:
        """Returns the server, and whether it was started now; it answers when this returns."""
        deadline = Deadline(_START_SECONDS)
        if self.running() is None:
            self._require_free_port()
        if self.running() is not None:
            return self._answering(deadline), False
        keep_token(self._plan.token_file)
        log = Log(self.log)
        process = processes.start_detached(self._command(), self.log, self._plan.environment)
        while process.poll() is None:
            running, url = self.running(), _url_in(log.lines())
            if url is not None and running is not None and _is(running.pid, process.pid):
                self._pid_file.add_place(url, self._plan.token_file)
                return Running(running.pid, url, self._plan.token_file), True
            # Another's server is no reason to leave: what was started here waits for its lock,
            # and would take it as soon as that server stopped.
            self._wait(deadline)
        if self.running() is None:
            kind = WrongUsageError if process.returncode == USAGE else Unreachable
            raise kind(_last_words(log))
        return self._answering(deadline), False

    def stop(self) -> bool:
        """Returns whether there was one. It has time to answer what it was asked."""
        running = self.running()
        if running is None:
            return False
        if running.pid is None:
            raise Unreachable("The server is just being started: try again in a moment.")
        for number in (signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(running.pid, number)
            if self._has_ended(Deadline(_STOP_SECONDS)):
                return True
        raise Unreachable(f"The server (process {running.pid}) does not end.")

    def _command(self) -> list[str]:
        module = ["-P", "-m", "memory_bridge.daemon.process"]
        return [sys.executable, *module, str(self._pid_file.path), *self._plan.arguments]

    def _answering(self, deadline: Deadline) -> Running:
        """Returns what another start has started, as soon as that answers."""
        while (running := self.running()) is not None and running.url is None:
            self._wait(deadline)
        if running is None:
            raise Unreachable(f"The server has ended at once; {self.log} says why.")
        return running

    def _wait(self, deadline: Deadline) -> None:
        if deadline.is_over:
            raise Unreachable(
                f"The server does not answer within {_START_SECONDS:g} seconds; {self.log} may say"
                " why. `daemon stop` ends it."
            )
        time.sleep(_LOOK_SECONDS)

    def _has_ended(self, deadline: Deadline) -> bool:
        while self.running() is not None:
            if deadline.is_over:
                return False
            time.sleep(_LOOK_SECONDS)
        return True

    def _require_free_port(self) -> None:
        host, port = self._plan.address
        found = None if port == 0 else _found_at(host, port)
        if found is None or self.running() is not None:  # it may have come up just now
            return
        raise Unreachable(
            f"Port {port} of {host} is taken by {found}. Stop that, or set MCP_HTTP_PORT to a free"
            " port."
        )


def _is(pid: int | None, started: int) -> bool:
    """On Windows what was started is a launcher of the interpreter, whose number is another."""
    return pid == started or (pid is not None and sys.platform == "win32")


def _found_at(host: str, port: int) -> str | None:
    """Returns what answers there, None if nothing does."""
    connection = HTTPConnection(host, port, timeout=_PROBE_SECONDS)
    try:
        connection.connect()
    except OSError:
        return None
    with contextlib.suppress(OSError, HTTPException), contextlib.closing(connection):
        connection.request("GET", "/healthz")
        if b'"alive"' in connection.getresponse().read(1024):
            return "a Memory Bridge that this command has not started"
    return "another program"


def _url_in(lines: Sequence[str]) -> str | None:
    told = [line for line in lines if line.startswith(_LISTENING)]
    return told[-1].removeprefix(_LISTENING).strip() if told else None


def _last_words(log: Log) -> str:
    words = "\n".join(log.lines()[-_LAST_WORDS:])
    return f"The server has ended at once. The end of {log.path}:\n{words}"
