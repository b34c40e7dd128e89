"""The operations that are drawn from the contract, without a network."""

import inspect
import json
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_store.client import HttpStore
from memory_store.contract import Caller, FactWrite, Invalid, Store, SubjectVectors
from memory_store.wire import OPERATIONS, Operation
from store.strategies import arguments, values

CALLER = Caller(principal="p", source_client="c")
METHODS = [name for name in vars(Store) if not name.startswith("_")]


def carried(operation: Operation, *args, **kwargs):
    bound = operation.bind(*args, **kwargs)
    return operation.decode_arguments(operation.encode_arguments(bound))


def test_every_method_of_the_contract_is_an_operation_of_its_name():
    assert list(OPERATIONS) == METHODS
    assert [operation.path for operation in OPERATIONS.values()] == [f"/{it}" for it in METHODS]


@pytest.mark.parametrize("name", METHODS)
def test_the_client_has_every_method_with_the_signature_of_the_contract(name):
    drawn = vars(HttpStore)[name]

    assert inspect.signature(drawn) == inspect.signature(getattr(Store, name))
    assert inspect.getdoc(drawn) == inspect.getdoc(getattr(Store, name))


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
@settings(max_examples=20, deadline=None)
@given(st.data())
def test_arguments_arrive_as_they_were_sent(operation, data):
    sent = data.draw(arguments(operation))

    assert vars(carried(operation, **sent)) == sent


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
@settings(max_examples=20, deadline=None)
@given(st.data())
def test_results_arrive_as_they_were_answered(operation, data):
    result = data.draw(values(operation.returns))

    assert operation.decode_result(operation.encode_result(result)) == result


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_an_argument_left_out_has_the_default_of_the_signature(operation):
    parameters = operation.signature.parameters.values()
    fields = operation.arguments.model_fields

    assert {it.name: it.default for it in parameters if it.default is not it.empty} == {
        name: field.default for name, field in fields.items() if not field.is_required()
    }


@pytest.mark.parametrize("at", [3, datetime(2026, 1, 31, 12, 0, 0, 5000, tzinfo=UTC), None])
def test_a_version_stays_a_number_and_a_moment_a_moment(at):
    arrived = vars(carried(OPERATIONS["fact_get"], CALLER, "default", "k", at))["at"]

    assert (type(arrived), arrived) == (type(at), at)


def test_vectors_travel_as_base64_also_outside_of_a_word():
    def listing(vectors: list[bytes]) -> list[bytes]:
        return vectors

    operation = Operation("listing", listing)
    body = operation.encode_result([b"\xff\xfe"])

    assert json.loads(body) == ["__4="]
    assert operation.decode_result(body) == [b"\xff\xfe"]


def test_every_byte_of_a_vector_survives():
    vector = SubjectVectors(sequence=1, subject=2, version=3, windows=(bytes(range(256)),))
    arrived = carried(OPERATIONS["vector_put"], "owner", "model", [vector])

    assert vars(arrived)["vectors"] == [vector]


@pytest.mark.parametrize("seconds", [float("inf"), float("-inf")])
def test_an_infinite_number_does_not_turn_into_an_omitted_one(seconds):
    write = FactWrite(key="k", value="v", ttl_seconds=seconds, metadata={"n": seconds})

    assert vars(carried(OPERATIONS["fact_set"], CALLER, write))["write"] == write


@pytest.mark.parametrize(
    ("argument", "write"),
    [
        ("key", {"key": "\ud800"}),
        ("value", {"value": "a\udfffb"}),
        ("tags", {"tags": ("good", "\ud800")}),
        ("metadata", {"metadata": {"\ud800": 1}}),
        ("metadata", {"metadata": {"a": [{"b": "\ud800"}]}}),
    ],
)
def test_a_lone_surrogate_is_refused_under_the_name_of_its_field(argument, write):
    operation = OPERATIONS["fact_set"]
    bound = operation.bind(CALLER, FactWrite(**{"key": "k", "value": "v"} | write))

    with pytest.raises(Invalid, match="lone surrogate") as refused:
        operation.encode_arguments(bound)
    assert refused.value.argument == argument


@pytest.mark.parametrize(
    ("argument", "body"),
    [
        ("keys", '{"keys": "one text"}'),
        ("namespace", '{"namespace": 1}'),
        ("namespace", '{"namespace": null}'),
        ("colour", '{"colour": "red"}'),
        ("colour", '{"caller": {"principal": "p", "source_client": "c", "colour": "red"}}'),
        ("principal", '{"caller": {"principal": 5, "source_client": "c"}}'),
        (None, "[]"),
        (None, "{"),
        (None, ""),
        (None, '{"namespace": "\\ud800"}'),
    ],
)
def test_arguments_that_do_not_fit_are_refused_by_name(argument, body):
    valid = {"caller": CALLER.model_dump(), "namespace": "n", "keys": ["k"]}
    operation = OPERATIONS["fact_get_many"]
    if argument:
        body = json.dumps(valid | json.loads(body))

    with pytest.raises(Invalid) as refused:
        operation.decode_arguments(body.encode())
    assert refused.value.argument == argument


def test_a_missing_argument_is_named():
    with pytest.raises(Invalid) as refused:
        OPERATIONS["fact_get"].decode_arguments(b'{"caller": {"principal": "p"}}')
    assert refused.value.argument in ("source_client", "namespace", "key")


def test_a_number_is_not_read_from_text():
    with pytest.raises(Invalid) as refused:
        OPERATIONS["event_list"].decode_arguments(b'{"namespace": "n", "limit": "5"}')
    assert refused.value.argument == "limit"


@pytest.mark.parametrize("at", [True, 1.5, "yesterday", datetime(2026, 1, 1)])  # noqa: DTZ001 the fault
def test_what_is_neither_a_version_nor_a_moment_is_refused(at):
    with pytest.raises(Invalid) as refused:
        OPERATIONS["fact_get"].bind(CALLER, "default", "k", at=at)
    assert refused.value.argument == "at"
