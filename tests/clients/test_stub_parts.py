"""The parts of the stub by themselves: lines, lanes, keys, locks, pauses."""

import itertools
import os
import threading

import pytest

from memory_bridge.filelock import FileLock
from memory_bridge.messages import MAX_MESSAGE_BYTES
from memory_bridge.pauses import pauses
from memory_bridge.stub.calls import Call, OpenCalls
from memory_bridge.stub.host import Host
from memory_bridge.stub.lane import Lane
from memory_bridge.stub.tools import Signature, Toolbox, Traits
from waiting import wait_until

KEYED = Traits(keyed=True, takes_client=True)
MANY = Traits(keyed_lists=("writes",))


def call(request_id):
    return Call({"jsonrpc": "2.0", "id": request_id, "method": "tools/list"}, 10)


def lines_of(data):
    """What a host is heard to say when it writes this and closes its end."""
    read, write = os.pipe()
    host = Host(read, write, lambda: None)

    def speak():
        with os.fdopen(write, "wb") as pipe:
            pipe.write(data)

    thread = threading.Thread(target=speak)
    thread.start()
    lines = list(host.lines())
    thread.join()
    os.close(read)
    return lines


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\r\n\n  \nb", [b"a\r", b"b"]),
        (b"x" * 200_000 + b"\ny\n", [b"x" * 200_000, b"y"]),
        (b"x" * (MAX_MESSAGE_BYTES + 1) + b"\ny\n", [b"", b"y"]),
    ],
)
def test_lines_are_taken_apart_and_one_that_is_too_long_is_empty(data, lines):
    assert lines_of(data) == lines


def test_a_lane_with_one_thread_keeps_the_order():
    done = []
    lane = Lane("one", done.append, threads=1, room=1000)
    for number in range(500):
        assert lane.offer(number)
    wait_until(lambda: len(done) == 500)
    assert done == list(range(500))


def test_a_lane_counts_what_is_being_handled_as_well():
    go_on = threading.Event()
    begun = threading.Semaphore(0)

    def handle(_thing):
        begun.release()
        go_on.wait()

    lane = Lane("two", handle, threads=2, room=3)
    assert [lane.offer(number) for number in range(4)] == [True, True, True, False]
    assert begun.acquire(timeout=10)
    assert begun.acquire(timeout=10)
    assert not begun.acquire(blocking=False)
    assert lane.withdraw(2)
    assert not lane.withdraw(2)
    assert not lane.withdraw(0)
    assert lane.offer(5)
    go_on.set()
    assert begun.acquire(timeout=10)


def test_an_id_is_free_again_when_its_call_is_settled():
    calls = OpenCalls()
    first, second = call("a"), call("a")
    again = []
    assert calls.add(first)
    assert not calls.add(second)
    calls.settle(first, lambda: again.append(calls.add(second)))
    assert again == [True]
    assert calls.get("a") is second
    assert calls.get(["a"]) is None
    calls.wait_for_answers(0)
    calls.give_up()
    assert second.is_unwanted


def test_every_attempt_has_an_id_of_its_own():
    mine = call(7)
    assert [mine.attempt()["id"] for _ in range(3)] == [7, "7~1", "7~2"]
    assert mine.attempt_id == "7~2"


def test_two_stubs_never_use_the_same_key():
    signatures = [Signature(None) for _ in range(2)]
    keys = [signature.sign({}, KEYED)[0]["idempotency_key"] for signature in signatures * 50]
    assert len(set(keys)) == 100


@pytest.mark.parametrize("given", [None, "mine"])
def test_a_key_or_client_that_was_given_stays(given):
    arguments = {"idempotency_key": given, "client_id": given}
    signed, is_safe = Signature("desktop").sign(arguments, KEYED)
    assert is_safe
    assert signed["client_id"] == given or (given is None and signed["client_id"] == "desktop")
    assert (signed["idempotency_key"] == "mine") is (given == "mine")
    assert signed["idempotency_key"]


@pytest.mark.parametrize("writes", [None, "no JSON", "{}", 5, [1], '["{}"]'])
def test_writes_that_cannot_be_keyed_are_left_as_they_are_and_not_safe(writes):
    assert Signature(None).sign({"writes": writes}, MANY) == ({"writes": writes}, False)


def test_a_tool_without_keys_is_not_safe():
    assert Signature(None).sign({"a": 1}, Traits()) == ({"a": 1}, False)


def test_what_tools_say_of_themselves_is_learned_page_by_page_and_nonsense_passed_over():
    toolbox = Toolbox()
    assert not toolbox.is_known
    toolbox.learn({"tools": [{"name": "read", "annotations": {"readOnlyHint": True}}, 5]})
    toolbox.learn({"tools": [{"name": ["x"]}, {"name": "odd", "inputSchema": {"properties": []}}]})
    toolbox.learn({"tools": None})
    assert toolbox.of("read") == Traits(read_only=True)
    assert toolbox.of("odd") == Traits()
    assert toolbox.of("x") is None
    toolbox.forget()
    assert not toolbox.is_known


def test_pauses_grow_up_to_two_seconds():
    taken = list(itertools.islice(pauses(), 12))
    assert taken[0] < 0.06
    assert all(later > earlier for earlier, later in itertools.pairwise(taken[:5]))
    assert 1.4 < taken[-1] <= 2.0


def test_a_lock_has_one_holder_until_it_is_released(tmp_path):
    path = tmp_path / "folder" / "lock"
    with FileLock.take(path) as lock:
        assert lock is not None
        assert FileLock.take(path) is None
    with FileLock.take(path) as again:
        assert again is not None
