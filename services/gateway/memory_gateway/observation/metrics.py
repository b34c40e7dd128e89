"""Counts and durations in Prometheus's format."""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import (
    CollectorRegistry,
    Counter,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from memory_gateway.observation.call import Call
from memory_store.contract import Busy, Internal, Store, StoreError, Unavailable

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
STORE_ERRORS = frozenset(error.code for error in (Busy, Internal, Unavailable))

Gauges = Callable[[], Iterable[tuple[str, str, float]]]
"""Gives name, help and value of what is counted elsewhere, at the moment it is called."""


class Metrics:
    """All metrics of one gateway, in a registry of their own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._calls = Counter(
            "memory_bridge_calls",
            "Calls by tool, method or route, and by outcome.",
            ("call", "outcome"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "memory_bridge_call_seconds",
            "How long calls took, in seconds.",
            ("call",),
            buckets=SECONDS,
            registry=self._registry,
        )
        self._refusals = Counter(
            "memory_bridge_refusals",
            "Requests refused before they became calls, by HTTP status.",
            ("status",),
            registry=self._registry,
        )
        self._store_errors = Counter(
            "memory_bridge_store_errors",
            "Calls that failed because of the store, by code.",
            ("code",),
            registry=self._registry,
        )
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._registry)

    def watch(self, gauges: Gauges) -> None:
        self._registry.register(_Gauges(gauges))

    def count(self, call: Call, *, standing: bool = False) -> None:
        """`standing` calls are streams, whose duration says nothing about speed."""
        self._calls.labels(call.name, call.outcome).inc()
        if not standing:
            self._seconds.labels(call.name).observe(call.seconds)
        if call.outcome in STORE_ERRORS:
            self._store_errors.labels(call.outcome).inc()

    def count_refusal(self, status: int) -> None:
        self._refusals.labels(str(status)).inc()

    def text(self) -> bytes:
        """The exposition format. Asks the store, so it is called on a worker thread."""
        return generate_latest(self._registry)


class _Gauges(Collector):
    def __init__(self, gauges: Gauges) -> None:
        self._gauges = gauges

    def describe(self) -> list[GaugeMetricFamily]:
        """Nothing: otherwise registering would call the gauges to learn their names."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        for name, text, value in self._gauges():
            yield GaugeMetricFamily(f"memory_bridge_{name}", text, value)


def store_gauges(store: Store) -> Gauges:
    """Whether the store answers and, if so, what it holds and what awaits its embedding."""

    def read() -> Iterator[tuple[str, str, float]]:
        try:
            stats = store.stats(None)
        except StoreError:
            yield "store_up", "Whether the store answers.", 0
            return
        yield "store_up", "Whether the store answers.", 1
        yield "facts", "Facts that are there.", stats.facts
        yield "events", "Events in the trail.", stats.events
        yield "store_bytes", "What the store takes on disk.", stats.bytes
        yield "embedding_pending", "Facts that await their embedding.", stats.backlog.pending
        yield "embedding_failed", "Facts set aside after failed tries.", stats.backlog.failed

    return read
