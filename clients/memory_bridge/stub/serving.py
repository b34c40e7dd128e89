"""Runs the stub from its first line to its last answer."""

import contextlib
import signal
import threading
from collections.abc import Generator

from memory_bridge.stub.wiring import Plan, bridge

# A host that closes its end waits for about two seconds before it grows impatient.
LAST_ANSWERS_SECONDS = 5.0
_SIGNAL_SECONDS = 1.0
_SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGBREAK")


class _Stopped(BaseException):
    """A signal asked for the end."""


def serve(plan: Plan) -> None:
    """Returns when the host is gone, or a signal came, and what it asked for is answered.

    Raises what `bridge` raises.
    """
    ended = threading.Event()
    between = bridge(plan, ended.set)

    def pass_on() -> None:
        try:
            between.serve()
        finally:
            ended.set()

    with contextlib.suppress(_Stopped), _signals():
        threading.Thread(target=pass_on, name="host", daemon=True).start()
        try:
            ended.wait()
            between.wait_for_answers(LAST_ANSWERS_SECONDS)
        except _Stopped:
            between.wait_for_answers(_SIGNAL_SECONDS)
    between.close()


@contextlib.contextmanager
def _signals() -> Generator[None]:
    """Raises `_Stopped` for a signal that asks for the end; afterwards such signals go unheard."""
    numbers = [getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)]
    heard = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    for number in heard:
        signal.signal(number, _stop)
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, signal.SIG_IGN)


def _stop(_number: int, _frame: object) -> None:
    raise _Stopped
