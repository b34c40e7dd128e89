"""The store alone, on both databases: in process, and over HTTP in a process of its own."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from corpus import facts, questions
from figures import Figure, milliseconds, percentile
from places import Place, Postgres, Sqlite
from served import MB
from store_process import PROGRAM, Database, PlainClient, store_process

from memory_store.contract import Caller, ModelIdentity
from memory_store.opening import open_store
from memory_store.settings import StoreSettings
from memory_store.wire import OPERATIONS

CLIENTS = (1, 8, 32)
WRITES = 4000
READS = 400
SEARCHES = 200
MANY, VERY_MANY = 10_000, 100_000
AT_ONCE = 100
SATURATE = Path(__file__).with_name("saturate.py")
SLOW_DISK = [sys.executable, str(Path(__file__).with_name("slow_disk.py"))]
CALLER = Caller(principal="bench", source_client="bench")
IDENTITY = ModelIdentity(name="random", digest="0" * 64, dimension=384)
RATE, TIMES = 1500, 4

Call = Callable[..., Any]
Connect = Callable[[], AbstractContextManager[Call]]


@dataclass
class Way:
    """How clients reach a store: each connects for itself, and calls by the method's name."""

    name: str
    connect: Connect
    pid: int
    url: str = ""


@contextmanager
def _in_process(database: Database) -> Iterator[Way]:
    place = "database_url" if isinstance(database, str) else "memory_db"
    settings = StoreSettings.model_validate({place: database})
    with closing(open_store(settings)) as store:

        @contextmanager
        def connect() -> Iterator[Call]:
            yield lambda method, **arguments: getattr(store, method)(
                **vars(OPERATIONS[method].bind(**arguments))
            )

        yield Way("in process", connect, psutil.Process().pid)


@contextmanager
def _over_http(
    database: Database, name: str = "over HTTP", program: Sequence[str] = PROGRAM
) -> Iterator[Way]:
    with store_process(database, program=program) as process:

        @contextmanager
        def connect() -> Iterator[Call]:
            with closing(PlainClient(process.url)) as client:
                yield client.call

        yield Way(name, connect, process.pid, process.url)


def _on_slow_disk(database: Database) -> AbstractContextManager[Way]:
    return _over_http(database, "over HTTP with flushes of 2 ms", SLOW_DISK)


WAYS = (_in_process, _over_http)


def measure() -> Iterator[Figure]:
    with Sqlite() as place:
        yield from _speed(place)
        yield from _writes(place, _on_slow_disk)
        yield from _large(place, MANY)
    with Postgres() as place:
        yield from _speed(place)
        yield from _large(place, MANY)


def measure_large() -> Iterator[Figure]:
    for kind in (Sqlite, Postgres):
        with kind() as place:
            yield from _large(place, VERY_MANY)


def _speed(place: Place) -> Iterator[Figure]:
    for opened in WAYS:
        yield from _writes(place, opened)
        with place.new() as database, opened(database) as way:
            yield from _reads_while_writing(place, way)


@dataclass
class Writers:
    """Clients that write at once, each over a connection of its own, until they are stopped."""

    way: Way
    clients: int
    facts: Iterator[tuple[str, str]]
    times: list[float] = field(default_factory=list[float])
    _threads: list[threading.Thread] = field(default_factory=list[threading.Thread])
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stopped: bool = False

    def start(self) -> None:
        self._threads = [threading.Thread(target=self._write) for _ in range(self.clients)]
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    def stop(self) -> None:
        self._stopped = True
        self.join()

    def _write(self) -> None:
        with self.way.connect() as call:
            while not self._stopped and (fact := self._next()):
                write = {"key": fact[0], "value": fact[1]}
                self.times.append(
                    milliseconds(lambda w=write: call("fact_set", caller=CALLER, write=w))
                )

    def _next(self) -> tuple[str, str] | None:
        with self._lock:
            return next(self.facts, None)


def _writes(
    place: Place, opened: Callable[[Database], AbstractContextManager[Way]]
) -> Iterator[Figure]:
    alone = 0.0
    for clients in CLIENTS:
        with place.new() as database, opened(database) as way:
            writers = Writers(way, clients, iter(facts(WRITES, seed=clients).items()))
            start = time.perf_counter()
            writers.start()
            writers.join()
            rate = WRITES / (time.perf_counter() - start)
        alone = alone or rate
        http = bool(way.url) and clients == CLIENTS[-1] and place.has_targets
        name = f"{place.name}: fact_set {way.name}, {clients} at once"
        yield Figure(name, rate, "a second", least=RATE if http else None)
        yield Figure(f"{name}, p50", percentile(writers.times, 50), "ms")
        yield Figure(f"{name}, p99", percentile(writers.times, 99), "ms")
        if http:
            yield Figure(f"{name}, against one", rate / alone, "times", least=TIMES)


def _reads_while_writing(place: Place, way: Way) -> Iterator[Figure]:
    keys = list(facts(1000, seed=6))
    with way.connect() as call:
        for key, value in facts(1000, seed=6).items():
            call("fact_set", caller=CALLER, write={"key": key, "value": value})
        idle = percentile(_read_times(call, keys), 99)
        with _saturated(way):
            busy = percentile(_read_times(call, keys), 99)
    name = f"{place.name}: fact_get {way.name}"
    yield Figure(f"{name}, idle, p99", idle, "ms")
    yield Figure(f"{name}, while {CLIENTS[-1]} write, p99", busy, "ms")
    most = 5 if place.has_targets else None
    yield Figure(f"{name}, writing against idle", busy / idle, "times", most=most)


@contextmanager
def _saturated(way: Way) -> Iterator[None]:
    """Others write meanwhile, over HTTP in a process of theirs: they slow no reader here."""
    if not way.url:
        writers = Writers(way, CLIENTS[-1], iter(facts(200_000, seed=7).items()))
        writers.start()
        yield
        writers.stop()
        return
    command = [sys.executable, str(SATURATE), way.url, str(CLIENTS[-1])]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        for _ in range(CLIENTS[-1]):
            process.stdout.readline()  # type: ignore[union-attr] - it was asked for
        yield
        process.kill()


def _read_times(call: Call, keys: list[str]) -> list[float]:
    asked = list(islice(cycle(keys), READS + 50))
    times = [
        milliseconds(lambda k=key: call("fact_get", caller=CALLER, namespace="default", key=k))
        for key in asked
    ]
    return times[50:]


def _large(place: Place, size: int) -> Iterator[Figure]:
    """Search, weight and the opening of a store with so many facts and their vectors."""
    name = f"{size:,} facts"
    with place.new() as database:
        yield from _filled(place, database, name, size)
        start = time.perf_counter()
        with _over_http(database) as way, way.connect() as call:
            call("fact_list", caller=CALLER, namespace="default", limit=1)
            opening = time.perf_counter() - start
            most = 3 if size == VERY_MANY and place.has_targets else None
            yield Figure(f"{place.name}: opening {name}", opening, "s", most=most)
            yield from _searches(place, call, name)
            resident = psutil.Process(way.pid).memory_info().rss / MB
            yield Figure(f"{place.name}: resident memory of the store, {name}", resident, "MB")
            if server := place.memory():
                yield Figure(f"{place.name}: memory of the server, {name}", server, "MB")


def _filled(place: Place, database: Database, name: str, size: int) -> Iterator[Figure]:
    with _in_process(database) as way, way.connect() as call:
        start = time.perf_counter()
        _remember(call, size)
        rate = size / (time.perf_counter() - start)
        yield Figure(f"{place.name}: fact_set_many in process, {name}", rate, "a second")
        bare = call("stats").bytes
        _embed(call)
        whole = call("stats").bytes
    yield Figure(f"{place.name}: a fact on disk, {name}", bare / size, "bytes")
    yield Figure(f"{place.name}: a fact on disk with its vector, {name}", whole / size, "bytes")


def _remember(call: Call, size: int) -> None:
    writes = [{"key": key, "value": value} for key, value in facts(size).items()]
    for start in range(0, size, AT_ONCE):
        call("fact_set_many", caller=CALLER, writes=writes[start : start + AT_ONCE])


def _embed(call: Call) -> None:
    random = np.random.default_rng(1)
    call("model_use", identity=IDENTITY)
    while changes := call("change_take", owner="bench", model=IDENTITY.id, limit=1000):
        vectors = [
            {
                "sequence": change.sequence,
                "subject": change.subject,
                "version": change.version,
                "windows": (_vector(random),),
            }
            for change in changes
        ]
        call("vector_put", owner="bench", model=IDENTITY.id, vectors=vectors)


def _vector(random: np.random.Generator) -> bytes:
    vector = random.standard_normal(IDENTITY.dimension, dtype=np.float32)
    return (vector / np.linalg.norm(vector)).astype("<f4").tobytes()


def _searches(place: Place, call: Call, name: str) -> Iterator[Figure]:
    random = np.random.default_rng(2)
    asked = questions(SEARCHES + 20)
    first = milliseconds(
        lambda: call("fact_search", caller=CALLER, query=_query(random, "x", "hybrid"))
    )
    yield Figure(f"{place.name}: the first search by meaning, {name}", first, "ms")
    for mode in ("lexical", "hybrid"):
        times = [
            milliseconds(lambda q=query: call("fact_search", caller=CALLER, query=q))
            for query in [_query(random, text, mode) for text in asked]
        ]
        search = f"{place.name}: fact_search over HTTP, {mode}, {name}"
        yield Figure(f"{search}, p50", percentile(times[20:], 50), "ms")
        yield Figure(f"{search}, p95", percentile(times[20:], 95), "ms")


def _query(random: np.random.Generator, text: str, mode: str) -> dict[str, Any]:
    query: dict[str, Any] = {"text": text, "mode": mode}
    return query | ({"vector": _vector(random), "model": IDENTITY.id} if mode == "hybrid" else {})
