"""Clients that compete for one key over HTTP see one order of things, and so does the checker."""

import random
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from bench.store_process import SECRET, PlainClient, store_process
from memory_store.client import HttpStore
from memory_store.contract import Caller, Conflict, FactWrite
from system.linearizable import (
    NEVER,
    State,
    is_linearizable,
    lost,
    read,
    unanswered,
    won,
    write,
)

CLIENTS = 8
CALLS = 60
KEY = "contended"

ABSENT = State()
A, B = State(1, "a"), State(1, "b")

RIGHT = {
    "one after the other": [write(0, 1, "a", 1), read(2, 3, A), won(4, 5, A, "b")],
    "a read beside a write sees either": [
        write(0, 9, "a", 1),
        read(1, 2, ABSENT),
        read(3, 4, A),
    ],
    "of two beside each other one wins": [
        won(0, 9, ABSENT, "a"),
        lost(1, 8, ABSENT, A),
        read(10, 11, A),
    ],
    "what was not answered has happened": [unanswered(0, ABSENT, "a"), read(5, 6, A)],
    "what was not answered has not happened": [unanswered(0, ABSENT, "a"), read(5, 6, ABSENT)],
    "what was not answered happens late": [
        unanswered(0, ABSENT, "a"),
        read(5, 6, ABSENT),
        read(7, 8, A),
    ],
    "what was not answered came too late": [
        unanswered(0, ABSENT, "a"),
        won(1, 2, ABSENT, "b"),
        read(3, 4, B),
    ],
    "a plain write of which nobody knows": [
        write(0, NEVER, "a", None),
        won(1, 2, ABSENT, "b"),
        read(3, 4, State(2, "a")),
    ],
}
WRONG = {
    "a lost update": [won(0, 1, ABSENT, "a"), write(2, 3, "b", 1)],
    "a write that vanished": [write(0, 1, "a", 1), read(2, 3, ABSENT)],
    "a stale read": [write(0, 1, "a", 1), won(2, 3, A, "b"), read(4, 5, A)],
    "a read that goes back": [write(0, 9, "a", 1), read(1, 2, A), read(3, 4, ABSENT)],
    "two winners": [won(0, 9, ABSENT, "a"), won(1, 8, ABSENT, "b")],
    "no winner": [lost(0, 9, ABSENT, B), lost(1, 8, ABSENT, A)],
    "a loser against nobody": [write(0, 1, "a", 1), lost(2, 3, A, A)],
    "a value from nowhere": [write(0, 1, "a", 1), read(2, 3, B)],
    "a value from the future": [read(0, 1, A), write(2, 3, "a", 1)],
    "what was not answered happened twice": [
        unanswered(0, ABSENT, "a"),
        read(1, 2, A),
        won(3, 4, A, "b"),
        read(5, 6, State(3, "a")),
    ],
    "what was not answered was undone": [
        unanswered(0, ABSENT, "a"),
        read(1, 2, A),
        read(3, 4, ABSENT),
    ],
}


@pytest.mark.parametrize("history", RIGHT.values(), ids=RIGHT)
def test_the_checker_accepts(history):
    assert is_linearizable(history)


@pytest.mark.parametrize("history", WRONG.values(), ids=WRONG)
def test_the_checker_rejects(history):
    assert not is_linearizable(history)


class Client:
    """One of many: reads, writes and compares-and-sets at random, and notes what it was told."""

    def __init__(self, url: str, number: int) -> None:
        self.url = url
        self.caller = Caller(principal="p", source_client=f"client{number}")
        self.random = random.Random(number)
        self.values = (f"{number}/{count}" for count in range(CALLS))
        self.known = ABSENT
        self.history = []

    def run(self):
        store = HttpStore(self.url, SECRET)
        for _ in range(CALLS):
            call = self.random.choices(
                [self.read, self.write, self.swap, self.hang_up], self.WEIGHTS
            )
            self.history.append(call[0](store, next(self.values), time.monotonic()))
        store.close()
        return self.history

    WEIGHTS = (3, 1, 6, 0.3)

    def read(self, store, _value, began):
        self.known = state(store.fact_get(self.caller, "default", KEY))
        return read(began, time.monotonic(), self.known)

    def write(self, store, value, began):
        fact = store.fact_set(self.caller, FactWrite(key=KEY, value=value))
        self.known = state(fact)
        return write(began, time.monotonic(), value, fact.version)

    def swap(self, store, value, began):
        expected = self.known
        try:
            fact = store.fact_set(self.caller, self.conditional(value))
        except Conflict as conflict:
            self.known = state(conflict.current)
            return lost(began, time.monotonic(), expected, self.known)
        self.known = state(fact)
        assert self.known == expected.written(value)
        return won(began, time.monotonic(), expected, value)

    def hang_up(self, _store, value, began):
        """Sends a compare-and-set and is gone before the answer."""
        plain = PlainClient(self.url)
        plain.send("fact_set", caller=self.caller, write=self.conditional(value))
        plain.close()
        return unanswered(began, self.known, value)

    def conditional(self, value):
        """By value or by version; either tells one state from every other, as no value recurs."""
        if self.known.version and self.random.random() < 0.5:
            return FactWrite(key=KEY, value=value, expected_value=self.known.value)
        return FactWrite(key=KEY, value=value, expected_version=self.known.version)


def state(fact):
    return State(fact.version, fact.value) if fact else ABSENT


@pytest.mark.parametrize("processes", [1, 2])
def test_clients_on_one_key_see_one_order(processes, database):
    with ExitStack() as stack:
        stores = [stack.enter_context(store_process(database)) for _ in range(processes)]
        clients = [Client(stores[number % processes].url, number) for number in range(CLIENTS)]
        with ThreadPoolExecutor(CLIENTS) as threads:
            histories = list(threads.map(Client.run, clients))
        last = HttpStore(stores[0].url, SECRET)
        began = time.monotonic()
        final = state(last.fact_get(clients[0].caller, "default", KEY))
        last.close()
    history = [operation for one in histories for operation in one]
    ended = read(began, time.monotonic(), final)

    assert is_linearizable([*history, ended])
    assert len(history) == CLIENTS * CALLS
    assert final.version > CLIENTS, "they hardly met"
    assert not is_linearizable([*history, ended, read(began, ended.returned, State(1, "other"))])
