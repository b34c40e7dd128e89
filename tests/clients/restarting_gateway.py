"""A gateway on one port and one file that is killed and comes again."""

import contextlib
import subprocess
import sys
import threading
from pathlib import Path

from gateway_serving import TOKEN, command, environment
from ports import free_port
from waiting import wait_until

SECONDS = 60.0


class RestartingGateway:
    def __init__(self, folder: Path, **settings: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self.token_file = folder / "token"
        self.token_file.write_text(TOKEN)
        self.database = folder / "memory.db"
        self._settings = {"MCP_HTTP_PORT": str(self.port), "MCP_AUTH_TOKEN": TOKEN} | settings
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *, wait: bool = True) -> None:
        self._process = subprocess.Popen(
            command(str(self.database), "--http"),
            stderr=subprocess.PIPE,
            env=environment(**self._settings),
        )
        said: list[bytes] = []
        listening, ended = threading.Event(), threading.Event()
        threading.Thread(target=self._drain, args=(said, listening, ended), daemon=True).start()
        if wait:
            wait_until(lambda: listening.is_set() or ended.is_set(), seconds=SECONDS, about=said)
            assert listening.is_set(), f"the gateway has ended at once: {said}"

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(SECONDS)

    def _drain(self, said: list[bytes], listening: threading.Event, ended: threading.Event) -> None:
        with self._process.stderr as lines:
            for line in lines:
                said.append(line)
                if line.startswith(b"listening on "):
                    listening.set()
        ended.set()

    @contextlib.contextmanager
    def running(self):
        self.start()
        try:
            yield self
        finally:
            self.kill()

    def stub(self, *options: str) -> list[str]:
        """The command line of a stub in front of it."""
        words = ["stdio", "--url", self.url, "--token-file", str(self.token_file), *options]
        return [sys.executable, "-P", "-m", "memory_bridge", *words]
