"""A bounded queue, and the threads that take from it."""

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Lane(Generic[T]):
    """Handles what it is offered in that order; with one thread one thing is done before the next.

    `room` is for what waits and what is being handled together. Threads begin when they are needed.
    """

    def __init__(self, name: str, handle: Callable[[T], None], *, threads: int, room: int) -> None:
        self._name = name
        self._handle = handle
        self._most_threads = threads
        self._room = room
        self._changed = threading.Condition()
        self._waiting: deque[T] = deque()
        self._threads = 0
        self._handling = 0
        self._is_held = False

    def offer(self, thing: T) -> bool:
        """Returns False when there is no room for it."""
        with self._changed:
            under_way = self._handling + len(self._waiting)
            if under_way >= self._room:
                return False
            self._waiting.append(thing)
            if under_way >= self._threads < self._most_threads:
                self._threads += 1
                threading.Thread(target=self._work, name=self._name, daemon=True).start()
            self._changed.notify()
            return True

    def withdraw(self, thing: T) -> bool:
        """Returns whether it was still waiting; then it is not handled."""
        with self._changed:
            if thing not in self._waiting:
                return False
            self._waiting.remove(thing)
            return True

    def hold(self) -> None:
        """Lets what is offered wait; what is being handled goes on."""
        with self._changed:
            self._is_held = True

    def release(self) -> None:
        with self._changed:
            self._is_held = False
            self._changed.notify_all()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting and not self._is_held)
                thing = self._waiting.popleft()
                self._handling += 1
            try:
                self._handle(thing)
            finally:
                with self._changed:
                    self._handling -= 1
