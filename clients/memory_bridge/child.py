"""A server as a child process: lines in, lines out, its last words kept, and no orphan."""

import contextlib
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from queue import SimpleQueue
from typing import IO

from memory_bridge.errors import ServerDied, Unreachable
from memory_bridge.messages import MAX_MESSAGE_BYTES

TAIL_LINES = 20
_LONGEST_TAIL_LINE = 4096
_LAST_WORDS_SECONDS = 1.0


class Child:
    """Three threads, one for each pipe: whoever waits for one of them never waits for another.

    Each pipe is closed by its own thread, for closing a file blocks while another reads it.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        grace_seconds: float = 3.0,
    ) -> None:
        self.name = " ".join(command)
        self._grace = grace_seconds
        self._outbox: SimpleQueue[bytes | None] = SimpleQueue()
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._process = _started(command, environment)
        self._threads: list[threading.Thread] = []

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def start(
        self,
        on_line: Callable[[bytes], None],
        on_end: Callable[[], None],
        on_words: Callable[[str], None] = lambda _words: None,
    ) -> None:
        """Reads from now on; `on_end` is called once, after the last line and the last words.

        `on_words` is called with each line that the child writes to stderr.
        """
        stdin, stdout, stderr = _pipes(self._process)
        errors = self._thread(lambda: self._drain(stderr, on_words))

        def read() -> None:
            try:
                self._read(stdout, on_line)
            finally:
                self._ended(_LAST_WORDS_SECONDS)
                errors.join(_LAST_WORDS_SECONDS)
                on_end()

        self._thread(lambda: self._write(stdin))
        self._thread(read)

    def write(self, line: bytes) -> None:
        """Queues a line, so that a child which does not read cannot block the caller."""
        self._outbox.put(line)

    def note(self, words: str) -> None:
        """Keeps something worth knowing among the child's last words."""
        self._tail.append(words)

    def death(self) -> ServerDied:
        exit_code = self._process.poll()
        how = "closed its output" if exit_code is None else f"ended with exit code {exit_code}"
        words = tuple(self._tail)
        last = " Its last words:\n" + "\n".join(words) if words else " It said nothing on stderr."
        return ServerDied(f"The server ({self.name}) {how}.{last}", exit_code, words)

    def close(self) -> None:
        """Ends the child: end of input, then SIGTERM, then SIGKILL, with a wait after each."""
        self._outbox.put(None)
        try:
            if not self._ended(self._grace):
                self._process.terminate()
                self._ended(self._grace)
        finally:
            # Also on an interrupt in the middle of the waiting: nothing is left behind.
            self._process.kill()
            self._process.wait()
        for thread in self._threads:
            thread.join(_LAST_WORDS_SECONDS)

    def _ended(self, seconds: float) -> bool:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self._process.returncode is not None

    def _thread(self, target: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=target, daemon=True, name=f"memory-bridge: {self.name}")
        thread.start()
        self._threads.append(thread)
        return thread

    def _write(self, stdin: IO[bytes]) -> None:
        # A pipe that broke is the reader's news: the child's output ends too.
        with contextlib.suppress(OSError), stdin:
            while (line := self._outbox.get()) is not None:
                stdin.write(line + b"\n")
                stdin.flush()

    def _read(self, stdout: IO[bytes], on_line: Callable[[bytes], None]) -> None:
        with stdout:
            while line := stdout.readline(MAX_MESSAGE_BYTES):
                on_line(line)

    def _drain(self, stderr: IO[bytes], on_words: Callable[[str], None]) -> None:
        with stderr:
            while line := stderr.readline(_LONGEST_TAIL_LINE):
                words = line.decode("utf-8", "replace").rstrip()
                self._tail.append(words)
                on_words(words)


def _started(
    command: Sequence[str], environment: Mapping[str, str] | None
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(  # noqa: S603  # the command is the caller's own
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
    except (OSError, ValueError) as error:
        raise Unreachable(f"The server cannot be started: {error}.") from error


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes], IO[bytes]]:
    if process.stdin is None or process.stdout is None or process.stderr is None:
        raise AssertionError("the child is started with three pipes")
    return process.stdin, process.stdout, process.stderr
