"""A program at a terminal of its own."""

import os
import pty
import re
import selectors
import subprocess
import time

SECONDS = 20.0
# What a shell sends to colour, move and take back; a line that was typed is read without it.
CONTROL = re.compile(r"\x07|\x1b\[[0-9;?]*[a-zA-Z]")
TAKEN_BACK = re.compile(r"[^\x08]\x08")


class Terminal:
    """What the program shows is in `shown`, as the terminal's driver passed it on."""

    def __init__(self, command, environment, folder=None):
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )
        os.close(theirs)
        self.shown = b""

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        self.process.kill()
        self.process.wait(SECONDS)
        os.close(self._ours)

    @property
    def text(self):
        """What is shown, without what makes it so."""
        return TAKEN_BACK.sub("", CONTROL.sub("", self.shown.decode("utf-8", "replace")))

    def type(self, text):
        os.write(self._ours, text.encode())

    def wait_for(self, text):
        """Reads until the text has been shown."""
        end = time.monotonic() + SECONDS
        while text not in self.text:
            assert self._read(end - time.monotonic()), self.shown

    def end(self):
        """Reads to the end; returns the exit code."""
        end = time.monotonic() + SECONDS
        while self._read(end - time.monotonic()):
            pass
        return self.process.wait(SECONDS)

    def _read(self, seconds):
        """Returns whether there was anything to read before the end of the time or the program."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._ours, selectors.EVENT_READ)
            if not selector.select(max(0, seconds)):
                return False
        try:
            read = os.read(self._ours, 65_536)
        except OSError:  # Linux says so when the program has closed its side
            return False
        self.shown += read
        return bool(read)
