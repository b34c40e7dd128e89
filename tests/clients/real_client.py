"""A real client in a process of its own, which does as it is told."""

import contextlib
import itertools
import json
import queue
import subprocess
import threading
from concurrent.futures import Future

SECONDS = 120.0


class Failed(Exception):
    """What the client says when something does not come off."""


class RealClient:
    """`errors` are what it, or what it started, says on stderr."""

    def __init__(self, command):
        self.errors = []
        self._news = queue.SimpleQueue()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._numbers = itertools.count()
        self._asked = {}
        for reading in (self._read, self._drain):
            threading.Thread(target=reading, daemon=True).start()

    def begin(self, order, **wanted):
        """Returns a future of what comes of it, which may raise `Failed`."""
        number = next(self._numbers)
        self._asked[number] = asked = Future()
        print(json.dumps({"id": number, "order": order, **wanted}), file=self._process.stdin)
        self._process.stdin.flush()
        return asked

    def do(self, order, **wanted):
        return self.begin(order, **wanted).result(SECONDS)

    def begin_call(self, tool, **arguments):
        return self.begin("call", tool=tool, arguments=arguments)

    def call(self, tool, **arguments):
        return self.begin_call(tool, **arguments).result(SECONDS)

    def hears_of(self, uri, seconds=SECONDS):
        """Waits until it has heard that this changed; returns whether it has."""
        with contextlib.suppress(queue.Empty):
            while self._news.get(timeout=seconds) != uri:
                pass
            return True
        return False

    def close(self):
        self._process.kill()
        self._process.wait()

    def _read(self):
        for line in self._process.stdout:
            said = json.loads(line)
            if "heard" in said:
                self._news.put(said["heard"])
            elif "error" in said:
                self._asked.pop(said["id"]).set_exception(Failed(said["error"]))
            else:
                self._asked.pop(said["id"]).set_result(said["result"])
        for asked in self._asked.values():
            asked.set_exception(EOFError("".join(self.errors)))

    def _drain(self):
        self.errors.extend(self._process.stderr)
