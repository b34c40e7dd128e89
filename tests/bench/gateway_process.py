"""A gateway in a process of its own, over a store in another."""

import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from served import CannotMeasure, environment

TOKEN = "a-token-of-the-bench-0123456789"
PROGRAM = [sys.executable, "-m", "memory_gateway.main", "--http"]
BARE = [sys.executable, str(Path(__file__).with_name("bare_gateway.py")), "--http"]
LISTENS = "listening on "
UNBOUND = "1000000"


@dataclass(frozen=True)
class GatewayProcess:
    url: str
    pid: int


@contextmanager
def gateway_process(
    store_url: str, store_secret: str, *, program: Sequence[str] = PROGRAM, **settings: str
) -> Iterator[GatewayProcess]:
    """Without embeddings, and with a rate that no measurement meets, unless settings say so."""
    ours = {
        "MCP_HTTP_PORT": "0",
        "MCP_AUTH_TOKEN": TOKEN,
        "MCP_STORE_URL": store_url,
        "MCP_STORE_SECRET": store_secret,
        "MCP_EMBEDDINGS": "off",
        "MCP_RATE_PER_SECOND": UNBOUND,
        "MCP_RATE_BURST": UNBOUND,
    }
    process = subprocess.Popen(
        program, env=environment(ours | settings), stderr=subprocess.PIPE, text=True
    )
    try:
        said = iter(process.stderr or ())
        url = next((it.split()[-1] for it in said if it.startswith(LISTENS)), None)
        if url is None:
            raise CannotMeasure("The gateway did not start.")
        threading.Thread(target=list, args=[said], daemon=True).start()
        yield GatewayProcess(url, process.pid)
    finally:
        process.kill()
        process.wait()
