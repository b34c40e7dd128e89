"""Traces over OTLP, when the environment names where they go."""

import threading
from collections.abc import Generator
from contextlib import contextmanager

from opentelemetry import trace

from memory_gateway.version import VERSION

MISSING = (
    "OTEL_EXPORTER_OTLP_ENDPOINT is set, and what sends traces is not installed:"
    " pip install 'mcp-memory-bridge[otel]'."
)


LAST_SPANS_SECONDS = 1.0


class CannotTrace(Exception):
    """Traces were asked for and cannot be sent. The message says why."""


def is_tracing() -> bool:
    """Whether spans go anywhere. One that goes nowhere costs as much as the line in the log."""
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


@contextmanager
def tracing(endpoint: str | None, service: str) -> Generator[None]:
    """Sends traces while the context lasts, if there is an endpoint. Raises `CannotTrace`.

    The exporter reads its further settings (OTEL_EXPORTER_OTLP_…) itself.
    """
    if endpoint is None:
        yield
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415  an extra
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415  an extra
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415  an extra
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415  an extra
    except ImportError as error:
        raise CannotTrace(MISSING) from error
    names = {"service.name": service, "service.version": VERSION}
    provider = TracerProvider(resource=Resource.create(names))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    try:
        yield
    finally:
        # A collector that does not answer must not hold up the end of the process.
        last = threading.Thread(target=provider.shutdown, daemon=True)
        last.start()
        last.join(LAST_SPANS_SECONDS)
