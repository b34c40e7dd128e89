"""Threads for what blocks; the end of the process waits for none of them."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar, cast

Result = TypeVar("Result")


class DaemonThreads:
    """Up to `most` threads, each started when there is a job and none of them is free.

    Those of the standard library and of anyio are joined when the process ends, which a write
    to a pipe that nobody reads, or a lock that nobody lets go, would put off for ever.
    """

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._most = most
        self._jobs: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        self._lock = threading.Lock()
        self._started = 0
        self._unfinished = 0

    @property
    def unfinished(self) -> int:
        """How many jobs run or wait for a thread, those included that nobody waits for any more."""
        return self._unfinished

    async def run(
        self, job: Callable[[], Result], ended: Callable[[], None] | None = None
    ) -> Result:
        """Returns what the job returns. A job that found a thread is done though its caller is
        cancelled; one that waits for a thread is then left out. `ended` is called, on any thread,
        when the job has ended or will not begin."""
        answer: Future[Any] = Future()
        if ended:
            answer.add_done_callback(lambda _: ended())
        return cast("Result", await asyncio.wrap_future(self._submit(job, answer)))

    def _submit(self, job: Callable[[], Any], answer: Future[Any]) -> Future[Any]:
        with self._lock:
            self._unfinished += 1
            if self._started < min(self._unfinished, self._most):
                self._started += 1
                threading.Thread(target=self._serve, name=self._name, daemon=True).start()
            if self._unfinished <= self._started:
                answer.set_running_or_notify_cancel()
        self._jobs.put((job, answer))
        return answer

    def _serve(self) -> None:
        while True:
            job, answer = self._jobs.get()
            if answer.running() or answer.set_running_or_notify_cancel():
                _settle(job, answer)
            del job, answer
            with self._lock:
                self._unfinished -= 1


def _settle(job: Callable[[], Any], answer: Future[Any]) -> None:
    try:
        result = job()
    except BaseException as error:  # noqa: BLE001  whatever it is belongs to the caller
        answer.set_exception(error)
    else:
        answer.set_result(result)
