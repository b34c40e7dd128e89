"""The client and the server of a store against each other, over real sockets."""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory_store.client import HttpStore
from memory_store.contract import ERRORS, Caller, Fact, FactWrite, Internal, Invalid, StoreError
from memory_store.server import READ_AT_ONCE
from memory_store.wire import OPERATIONS
from store.scripted import ScriptedStore
from store.serving import serve_in_thread
from store.strategies import arguments, values

CALLER = Caller(principal="p", source_client="c")
NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def fact(key="k", **fields):
    base = {"namespace": "n", "key": key, "value": "v", "version": 1, "created_at": NOW}
    return Fact(**base | {"updated_at": NOW, "source_client": "c", "principal": "p"} | fields)


@pytest.fixture(scope="module")
def served():
    scripted = ScriptedStore()
    url, secret, stop = serve_in_thread(scripted)
    remote = HttpStore(url, secret)
    yield scripted, remote
    remote.close()
    stop()


@pytest.fixture
def scripted(served):
    served[0].calls.clear()
    return served[0]


@pytest.fixture
def remote(served):
    return served[1]


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_a_call_arrives_and_its_answer_comes_back(operation, scripted, remote, data):
    sent = data.draw(arguments(operation))
    answer = data.draw(values(operation.returns))
    scripted.answer = lambda **_: answer

    assert getattr(remote, operation.name)(**sent) == answer
    assert scripted.calls[-1] == (operation.name, sent)


def test_arguments_may_be_given_by_position_and_left_out(scripted, remote):
    scripted.answer = lambda **_: None
    remote.fact_get(CALLER, "n", "k")

    given_arguments = {"caller": CALLER, "namespace": "n", "key": "k", "at": None}
    assert scripted.calls == [("fact_get", given_arguments)]


@pytest.mark.parametrize("kind", ERRORS.values(), ids=ERRORS)
def test_an_error_comes_out_as_it_went_in(kind, scripted, remote):
    raised = kind("Ein Satz für Menschen: ‘é🦉’.", argument="key", current=fact(tags=("a",)))

    def answer(**_):
        raise raised

    scripted.answer = answer
    with pytest.raises(StoreError) as caught:
        remote.fact_set(CALLER, FactWrite(key="k", value="v"))
    assert type(caught.value) is kind
    assert caught.value.problem() == raised.problem()


def test_a_fault_of_the_store_leaks_nothing_and_is_whole_in_the_log(scripted, remote, caplog):
    def answer(**_):
        raise RuntimeError("SELECT secret FROM /var/lib/memory.db")

    scripted.answer = answer
    with caplog.at_level(logging.ERROR), pytest.raises(Internal) as caught:
        remote.stats()
    assert "SELECT" not in caught.value.message
    assert "/var/lib" not in caught.value.message
    assert "SELECT secret FROM /var/lib/memory.db" in caplog.text


def test_an_answer_that_breaks_the_contract_is_a_fault_of_the_store(scripted, remote):
    scripted.answer = lambda **_: object()

    with pytest.raises(Internal, match="its log says why"):
        remote.stats()


@pytest.mark.parametrize("key", ["\ud800", "a\udfff"])
def test_a_lone_surrogate_is_refused_before_anything_is_sent(key, scripted, remote):
    with pytest.raises(Invalid) as caught:
        remote.fact_get(CALLER, "n", key)
    assert caught.value.argument == "key"
    assert scripted.calls == []


def test_a_wrong_argument_is_refused_before_anything_is_sent(scripted, remote):
    with pytest.raises(Invalid) as caught:
        remote.fact_get(CALLER, "n", 5)
    assert caught.value.argument == "key"
    assert scripted.calls == []


def test_a_fault_in_one_of_many_writes_travels_to_the_store_that_judges_it(scripted, remote):
    writes = [FactWrite(key="a\0", value="v"), FactWrite(key="b", value="v", ttl_seconds=1e999)]
    scripted.answer = lambda **_: []
    remote.fact_set_many(CALLER, writes)

    assert scripted.calls == [("fact_set_many", {"caller": CALLER, "writes": writes})]


def test_the_largest_allowed_batch_fits(scripted, remote):
    value = "\x01" * 16_384
    writes = [FactWrite(key=str(n), value=value, expected_value=value) for n in range(100)]
    scripted.answer = lambda **_: []
    remote.fact_set_many(CALLER, writes)

    assert scripted.calls[0][1]["writes"] == writes


def test_thirty_two_threads_each_get_their_own_answer(scripted, remote):
    together = threading.Barrier(READ_AT_ONCE, timeout=30)

    def answer(key, **_):
        together.wait()
        return fact(key)

    scripted.answer = answer
    keys = [f"{index % 32}-{index}" for index in range(128)]
    with ThreadPoolExecutor(32) as threads:
        facts = list(threads.map(lambda key: remote.fact_get(CALLER, "n", key), keys))
    assert [it.key for it in facts] == keys
