"""What stands behind the wire in its tests: a store that answers as told, servers that break."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from memory_store.contract import Store


class ScriptedStore(Store):
    """Every method notes its arguments in `calls` and gives what `answer` makes of them."""

    def __init__(self, answer: Callable[..., Any] = lambda **_: None) -> None:
        self.answer = answer
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def __getattribute__(self, name: str) -> Any:
        if name not in vars(Store) or name.startswith("_"):
            return super().__getattribute__(name)

        def method(**arguments: Any) -> Any:
            self.calls.append((name, arguments))
            return self.answer(**arguments)

        return method


Breaking = Callable[[socket.socket, int], None]


@contextmanager
def breaking_server(breaks: Breaking) -> Iterator[tuple[str, list[bytes]]]:
    """Reads a request from each connection, notes it, and leaves the rest to `breaks`, which is
    given the connection and how many requests came before. Yields the address and the requests."""
    requests: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    requests.append(_request(connection))
                    breaks(connection, len(requests) - 1)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", requests
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def _request(connection: socket.socket) -> bytes:
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(65536)
    head, _, body = received.partition(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body
