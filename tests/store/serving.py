"""A store served over HTTP on a thread of the test's process."""

import threading
import time
from collections.abc import Callable

import uvicorn

from memory_store.contract import Store
from memory_store.server import build_app
from memory_store.wire import SERVER_IDLE_SECONDS

SECRET = "a secret of the tests"
START_SECONDS = 10


def serve_in_thread(store: Store, port: int = 0) -> tuple[str, str, Callable[[], None]]:
    """Returns the address, the secret, and what ends the serving."""
    config = uvicorn.Config(
        build_app(store, SECRET),
        port=port,
        log_level="warning",
        access_log=False,
        timeout_keep_alive=SERVER_IDLE_SECONDS,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{_port(server)}"

    def stop() -> None:
        server.should_exit = True
        thread.join(START_SECONDS)

    return url, SECRET, stop


def _port(server: uvicorn.Server) -> int:
    deadline = time.monotonic() + START_SECONDS
    while not server.started:
        assert time.monotonic() < deadline, "the server did not start"
        time.sleep(0.01)
    return server.servers[0].sockets[0].getsockname()[1]
