"""Starts the server when none answers. Of many that want to, on one machine, one does."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen

from memory_bridge import processes
from memory_bridge.connections import Origin
from memory_bridge.deadline import Deadline
from memory_bridge.filelock import FileLock

WAKING_SECONDS = 30.0
_LOOK_SECONDS = 0.1
_REST_SECONDS = 5.0
_CONNECT_SECONDS = 1.0


@dataclass(frozen=True)
class Places:
    """Files of a wake: the lock that one starter has, and what the command said."""

    lock: Path
    log: Path


class Waker:
    """`note` takes sentences for people."""

    def __init__(
        self, command: str, origin: Origin, places: Places, note: Callable[[str], None]
    ) -> None:
        """Raises ValueError, with a sentence, for a command that cannot be meant."""
        self._command = processes.words_of(command)
        if not self._command:
            raise ValueError("The command that starts the server is empty.")
        self._origin = origin
        self._places = places
        self._note = note
        self._waking = threading.Lock()
        self._started: Popen[bytes] | None = None

    def wake(self) -> None:
        """Has the server started, in the background, unless that is under way."""
        if self._waking.acquire(blocking=False):
            threading.Thread(target=self._wake, name="wake", daemon=True).start()

    def _wake(self) -> None:
        try:
            if (lock := FileLock.take(self._places.lock)) is not None:
                with lock:
                    self._start()
        except OSError as error:
            self._note(f"The server cannot be started: {error}.")
            time.sleep(_REST_SECONDS)
        finally:
            self._waking.release()

    def _start(self) -> None:
        """Runs the command unless the server answers by now, and waits until it does."""
        if self._answers() or (self._started and self._started.poll() is None):
            return
        self._started = processes.start_detached(self._command, self._places.log)
        deadline = Deadline(WAKING_SECONDS)
        while not self._answers() and not deadline.is_over:
            if self._has_failed(self._started):
                return
            time.sleep(_LOOK_SECONDS)

    def _has_failed(self, started: "Popen[bytes]") -> bool:
        """Returns whether the command says so; others are kept from trying the same at once."""
        if not started.poll():
            return False
        told = f"The command that starts the server failed with {started.returncode}"
        self._note(f"{told}; what it said is in {self._places.log}.")
        time.sleep(_REST_SECONDS)
        return True

    def _answers(self) -> bool:
        with contextlib.suppress(OSError):
            socket.create_connection(self._origin.address, timeout=_CONNECT_SECONDS).close()
            return True
        return False
