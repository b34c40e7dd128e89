"""Hypothesis strategies for what the contract's annotations allow."""

from collections.abc import Sequence
from datetime import UTC
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from memory_store.contract import Word, to_milliseconds
from memory_store.wire import Operation

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
numbers = st.floats(allow_nan=False)
json = st.recursive(
    st.none() | st.booleans() | st.integers() | numbers | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=5,
)
moments = st.datetimes(timezones=st.just(UTC)).map(to_milliseconds)
PLAIN = {
    str: text,
    int: st.integers(),
    float: numbers,
    bool: st.booleans(),
    bytes: st.binary(max_size=20),
    NoneType: st.none(),
    Any: json,
}


@cache
def values(hint: Any) -> st.SearchStrategy[Any]:
    if hint in PLAIN:
        return PLAIN[hint]
    if isinstance(hint, type) and issubclass(hint, Word):
        hints = get_type_hints(hint, include_extras=True)
        return st.builds(hint, **{name: values(hints[name]) for name in hint.model_fields})
    return _composed(get_origin(hint), get_args(hint))


def _composed(origin: Any, parts: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    if origin is Annotated:
        return moments
    if origin is Literal:
        return st.sampled_from(parts)
    if origin in (Union, UnionType):
        return st.one_of(*map(values, parts))
    if origin is dict:
        return st.dictionaries(*map(values, parts), max_size=3)
    if origin is tuple:
        return st.lists(values(parts[0]), max_size=3).map(tuple)
    assert origin in (list, Sequence), origin
    return st.lists(values(parts[0]), max_size=3)


def arguments(operation: Operation) -> st.SearchStrategy[dict[str, Any]]:
    parameters = operation.signature.parameters.values()
    return st.fixed_dictionaries({it.name: values(it.annotation) for it in parameters})
