"""The stub as a host starts it, and the host's end of its pipes."""

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading

SECONDS = 20.0
INFO = {"name": "host", "version": "1"}
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": INFO,
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Stub:
    """`said` holds every line of its stdout so far, each read as the JSON that it must be."""

    def __init__(self, command, **settings):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MCP_")}
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**kept, **settings},
        )
        self.said = []
        self.errors = []
        self._new = queue.SimpleQueue()
        threads = [
            threading.Thread(target=self._read, daemon=True),
            threading.Thread(target=self._drain, daemon=True),
        ]
        for thread in threads:
            thread.start()

    def say(self, message):
        line = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def request(self, request_id, method, **params):
        self.say({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})

    def modern(self, request_id, method, **params):
        self.request(request_id, method, _meta=ENVELOPE, **params)

    def notify(self, method, **params):
        self.say({"jsonrpc": "2.0", "method": method, "params": params})

    def call(self, request_id, tool, **arguments):
        self.request(request_id, "tools/call", name=tool, arguments=arguments)

    def heard(self, seconds=SECONDS):
        """The next message that it says."""
        try:
            return self._new.get(timeout=seconds)
        except queue.Empty:
            raise AssertionError(f"it says nothing; stderr: {b''.join(self.errors)!r}") from None

    def initialize(self):
        self.request(
            0, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=INFO
        )
        answer = self.heard()
        self.notify("notifications/initialized")
        return answer

    def end_input(self):
        """Closes its stdin; returns its exit code."""
        self.process.stdin.close()
        return self.process.wait(SECONDS)

    def _read(self):
        for line in self.process.stdout:
            message = json.loads(line)
            self.said.append(message)
            self._new.put(message)

    def _drain(self):
        self.errors.extend(self.process.stderr)


@contextlib.contextmanager
def stub(*options):
    stub = Stub([sys.executable, "-P", "-m", "memory_bridge", "stdio", *options])
    try:
        yield stub
    finally:
        stub.process.kill()
        stub.process.wait()
