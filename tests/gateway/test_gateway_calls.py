"""Calls between the event loop and the memory, and the frames of stdio, on their own."""

import threading
from functools import partial

import anyio
import anyio.to_thread
import pytest

from memory_gateway.calls import SHARE, UNDER_WAY, Calls
from memory_gateway.frames import LineReader, Unreadable
from memory_gateway.principals import LOCAL, Identity, Principal
from memory_store.contract import Busy, Caller, FactWrite, Unavailable
from waiting import wait_until

WAIT = 20.0
CALLER = Caller(principal="local", source_client="tests")
CALLING = Identity(LOCAL, CALLER)
ANOTHER = Identity(Principal("token:other"), CALLER)
LINES = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n\nnoise\r\n{"jsonrpc":"2.0","id":"2","met'


@pytest.mark.anyio
async def test_a_call_that_reached_the_store_finishes_when_its_caller_is_gone(memory):
    reached, let_go, written = threading.Event(), threading.Event(), threading.Event()

    def write(context):
        reached.set()
        let_go.wait(WAIT)
        context.store.fact_set(CALLER, FactWrite(key="k", value="v"))
        written.set()

    async with anyio.create_task_group() as calls:
        calls.start_soon(partial(Calls(memory, None).ask, CALLING, write, reading=False))
        await anyio.to_thread.run_sync(reached.wait, WAIT)
        calls.cancel_scope.cancel()
    let_go.set()
    assert written.wait(WAIT)
    assert memory.store.fact_get(CALLER, "default", "k").value == "v"


class HeldWrite:
    """A write that has its thread and waits for a lock, however often it is asked."""

    def __init__(self):
        self.let_go = threading.Event()
        self._begun = threading.Semaphore(0)

    def __call__(self, _context):
        self._begun.release()
        assert self.let_go.wait(WAIT)

    async def begun(self, times):
        for _ in range(times):
            await anyio.to_thread.run_sync(partial(self._begun.acquire, timeout=WAIT))


@pytest.mark.anyio
async def test_every_write_may_wait_for_the_lock_at_once_and_reads_do_not_wait_with_them(memory):
    calls, write = Calls(memory, None), HeldWrite()
    async with anyio.create_task_group() as writers:
        for number in range(UNDER_WAY):
            asking = (CALLING, ANOTHER)[number % 2]
            writers.start_soon(partial(calls.ask, asking, write, reading=False))
        with anyio.fail_after(WAIT):
            await write.begun(UNDER_WAY)
            answer = await calls.ask(CALLING, lambda _context: "read", reading=True)
            with pytest.raises(Busy, match="try again") as refused:
                await calls.ask(CALLING, lambda _context: "write", reading=False)
        write.let_go.set()
    assert answer == "read"
    assert refused.value.retryable
    assert await calls.ask(CALLING, lambda _context: "write", reading=False) == "write"


@pytest.mark.anyio
async def test_one_principal_leaves_room_for_the_others_however_much_it_asks(memory):
    calls, write = Calls(memory, None), HeldWrite()
    async with anyio.create_task_group() as writers:
        for _ in range(SHARE):
            writers.start_soon(partial(calls.ask, CALLING, write, reading=False))
        with anyio.fail_after(WAIT):
            await write.begun(SHARE)
            with pytest.raises(Busy, match="This token has 256"):
                await calls.ask(CALLING, lambda _context: "mine", reading=False)
            other = await calls.ask(ANOTHER, lambda _context: "other", reading=False)
        writers.cancel_scope.cancel()
    with pytest.raises(Busy):  # who gave up waiting has not given back the thread
        await calls.ask(CALLING, lambda _context: "mine", reading=False)
    write.let_go.set()
    assert other == "other"
    await anyio.to_thread.run_sync(wait_until, lambda: not calls.waiting)
    assert await calls.ask(CALLING, lambda _context: "mine", reading=False) == "mine"


@pytest.mark.anyio
async def test_giving_up_answers_what_is_under_way_and_what_began_still_ends(memory):
    calls, let_go, ended = Calls(memory, None), threading.Event(), threading.Event()
    begun = threading.Event()

    def write(_context):
        begun.set()
        assert let_go.wait(WAIT)
        ended.set()

    async def give_up():
        await anyio.to_thread.run_sync(begun.wait, WAIT)
        calls.give_up()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(give_up)
        with anyio.fail_after(WAIT), pytest.raises(Unavailable, match="unknown"):
            await calls.ask(CALLING, write, reading=False)
    let_go.set()
    assert ended.wait(WAIT)


@pytest.mark.anyio
async def test_the_embedder_is_nudged_after_a_write_even_when_the_call_fails_later(memory):
    nudged = threading.Event()
    object.__setattr__(memory, "nudge", nudged.set)

    def write_and_fail(context):
        context.wrote(context.store.fact_set(CALLER, FactWrite(key="k", value="v")))
        raise KeyError

    with pytest.raises(Exception, match="Something went wrong"):
        await Calls(memory, None).ask(CALLING, write_and_fail, reading=False)
    assert nudged.is_set()


@pytest.mark.parametrize("size", [1, 2, 7, 40, 1000])
def test_lines_are_the_same_however_their_bytes_arrive(size):
    reader = LineReader()
    chunks = [LINES[start : start + size] for start in range(0, len(LINES), size)]
    frames = [frame for chunk in chunks for frame in reader.feed(chunk)] + list(reader.end())
    ping, noise, cut = frames
    assert ping.method == "ping"
    assert isinstance(noise, Unreadable)
    assert noise.answer.id is None
    assert isinstance(cut, Unreadable)
    assert cut.answer.id == "2"


def test_of_a_line_that_is_too_long_almost_nothing_is_kept():
    reader = LineReader(longest=1000)
    for _ in range(1000):
        assert list(reader.feed(b"x" * 1000)) == []
    assert reader._pieces == []
    [frame] = reader.feed(b'\n{"jsonrpc":"2.0"')
    assert frame.answer.error.code == -32600


@pytest.mark.parametrize(
    "line", [b'{"params":{"id":5},"a":{', b'{"method":"m","params":{"id":5}}x']
)
def test_an_id_inside_the_params_is_not_taken_for_the_messages(line):
    [frame] = LineReader().feed(line + b"\n")
    assert frame.answer.id is None
