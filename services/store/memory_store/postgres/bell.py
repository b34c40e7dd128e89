"""Tells every process on the database that something was written."""

import contextlib
import select
import socket
import threading
from collections.abc import Callable

import psycopg

from memory_store.postgres.session import Rows

CHANNEL = "memory_bridge_written"
AGAIN_SECONDS = 1.0
REST_SECONDS = 0.005
"""Between two rings: each costs a transaction, and wakes everybody who waits."""


class Bell:
    """A thread with a connection of its own, on which it both rings and listens.

    Not in the writes' own transactions: Postgres commits those that notify one at a time. So a
    process that is killed may not ring for its last write: whoever waits also looks by itself.
    """

    def __init__(self, connect: Callable[[], Rows], heard: Callable[[], None]) -> None:
        self._connect = connect
        self._heard = heard
        self._closed = threading.Event()
        self._rope, self._pulled = socket.socketpair()
        for end in (self._rope, self._pulled):
            end.setblocking(False)
        self._thread = threading.Thread(target=self._serve, name="postgres-bell", daemon=True)
        self._thread.start()

    def ring(self) -> None:
        with contextlib.suppress(OSError):  # rung too often to be missed, or closed by now
            self._rope.send(b"!")

    def close(self) -> None:
        self._closed.set()
        self.ring()
        self._thread.join()
        self._rope.close()
        self._pulled.close()

    def _serve(self) -> None:
        while not self._closed.is_set():
            try:
                with self._connect() as connection:
                    connection.execute(f"LISTEN {CHANNEL}".encode())
                    self._listen(connection)
            except psycopg.Error:
                self._closed.wait(AGAIN_SECONDS)

    def _listen(self, connection: Rows) -> None:
        while not self._closed.is_set():
            ready, _, _ = select.select([connection, self._pulled], [], [])
            if self._pulled in ready:
                self._pulled.recv(4096)
                connection.execute(f"NOTIFY {CHANNEL}".encode())
                self._closed.wait(REST_SECONDS)
            connection.pgconn.consume_input()
            while connection.pgconn.notifies():
                pass
            self._heard()
