"""Ports for servers that come back to the place that they had."""

import random
import socket
from contextlib import suppress

# Systems give a server on port 0 and whoever connects numbers from 32768 or 49152 on. One of those
# would be somebody else's by the time that the server is started again.
NOT_GIVEN_AWAY = range(10_000, 32_000)


def free_port() -> int:
    """A port of this machine that is free, and that nobody is given by chance."""
    while True:
        port = random.choice(NOT_GIVEN_AWAY)
        if is_free(port):
            return port


def is_free(port: int) -> bool:
    with socket.socket() as probe, suppress(OSError):
        probe.bind(("127.0.0.1", port))
        return True
    return False
