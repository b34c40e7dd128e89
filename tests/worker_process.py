"""Workers of the embedder, each in a process of its own, on a queue and a store of the tests."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from apart import SECRET, StoreProcess
from gateway_serving import SECONDS, environment
from memory_store.client import HttpStore
from memory_store.contract import Caller, FactWrite
from redis_server import RedisServer
from waiting import wait_until

REAL = [sys.executable, "-m", "memory_embedder.main"]
FAKE = [sys.executable, "-m", "worker_process"]
CALLER = Caller(principal="tests", source_client="tests")


@dataclass
class Worker:
    process: subprocess.Popen[bytes]
    said: Path

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(SECONDS)

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(SECONDS)


@dataclass
class Stack:
    """A Redis and a store, and in `folder` what workers leave behind."""

    redis: RedisServer
    process: StoreProcess
    store: HttpStore
    folder: Path

    def settings(self, **further: str) -> dict[str, str]:
        ours = {
            "MCP_EMBEDDINGS": "on",
            "MCP_REDIS_URL": self.redis.url,
            "MCP_STORE_URL": self.process.url,
            "MCP_STORE_SECRET": SECRET,
        }
        return ours | further

    @contextmanager
    def worker(self, *command: str, **settings: str) -> Iterator[Worker]:
        """A real one, unless another command is given; it works already when it is handed over."""
        said = self.folder / f"worker-{time.monotonic_ns()}.log"
        with said.open("wb") as log:
            process = subprocess.Popen(
                command or REAL,
                env=environment(**self.settings(**settings)) | {"PYTHONPATH": _tests()},
                stderr=log,
                stdout=log,
            )
        worker = Worker(process, said)
        try:
            wait_until(lambda: "connected to the queues" in said.read_text(), about=said)
            yield worker
        finally:
            worker.kill()

    def fake(self, name: str = "fake", **settings: str):
        """A worker whose model costs nothing and is called so."""
        return self.worker(*FAKE, FAKE_MODEL=name, FAKE_LOG=str(self.embedded), **settings)

    @property
    def embedded(self) -> Path:
        """The file that lists every text of a fact that a fake worker embedded."""
        return self.folder / "embedded"

    def write(self, count: int, text: str = "fact number {}") -> None:
        for first in range(0, count, 100):
            numbers = range(first, min(first + 100, count))
            writes = [FactWrite(key=f"k{number}", value=text.format(number)) for number in numbers]
            self.store.fact_set_many(CALLER, writes)

    def has(self, embedded: int) -> Callable[[], bool]:
        return lambda: self.store.stats().embedded == embedded


def _tests() -> str:
    return str(Path(__file__).parent)


def main() -> None:
    """Works as the real one does, with a fake model that the environment describes."""
    # ruff: noqa: PLC0415  only the process of a worker needs them
    import logging

    from fakes import FakeEmbedder
    from memory_embedder.main import work

    class Logged(FakeEmbedder):
        def embed(self, texts):
            time.sleep(float(os.environ.get("FAKE_SECONDS", "0")))
            if any("deadly" in text for text in texts):
                os.abort()
            vectors = super().embed(texts)
            with Path(os.environ["FAKE_LOG"]).open("a") as log:
                log.writelines(f"{text}\n" for text in texts)
            return vectors

    logging.basicConfig(level=logging.INFO)
    store = HttpStore(os.environ["MCP_STORE_URL"], os.environ["MCP_STORE_SECRET"])
    model = Logged(os.environ["FAKE_MODEL"], fails_on="poison")
    work(os.environ["MCP_REDIS_URL"], store, model, deadline_seconds=1.0)


if __name__ == "__main__":
    main()
