"""Starts what observes a gateway, as its settings ask."""

import sys
from collections.abc import Generator
from contextlib import ExitStack, closing, contextmanager

from memory_gateway.observation.debug_log import CannotLog, DebugLog
from memory_gateway.observation.logs import Format, logging_to_stderr
from memory_gateway.observation.metrics import Metrics
from memory_gateway.observation.observer import Observer
from memory_gateway.observation.tracing import CannotTrace, tracing
from memory_gateway.settings import GatewaySettings

CANNOT_OBSERVE = (CannotLog, CannotTrace)


def _form(settings: GatewaySettings) -> Format:
    """A server's log is read by machines, that of a terminal or of a client's child by people."""
    by_people = settings.transport == "stdio" or sys.stderr.isatty()
    return settings.log_format or ("text" if by_people else "json")


@contextmanager
def observing(settings: GatewaySettings) -> Generator[Observer]:
    """Ends with the last log line and span written. Raises one of `CANNOT_OBSERVE`."""
    with ExitStack() as started:
        started.enter_context(logging_to_stderr(settings.log_level, _form(settings)))
        started.enter_context(tracing(settings.otel_endpoint, settings.otel_service_name))
        log = DebugLog(settings.debug_log) if settings.debug_log else None
        if log:
            started.enter_context(closing(log))
        yield Observer(Metrics(), log)
