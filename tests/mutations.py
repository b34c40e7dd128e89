"""Requests that were good once, spoiled here and there: what a broken or hostile client sends."""

import copy
import json
from typing import Any

from hypothesis import strategies as st

HUGE = 10**400
NASTY = (
    None,
    True,
    -1,
    HUGE,
    2**63,
    1e308,
    "",
    "\0",
    "\ud800",
    "a" * 20_000,
    "../../etc/passwd",
    "' OR 1=1 --",
    "%s%n",
    "\u202e\ufeff",
    [],
    {},
    [[[[[]]]]],
    {"$ref": "#"},
    {"__proto__": {}, "": None},
)
ANYTHING = st.one_of(
    st.sampled_from(NASTY),
    st.integers(),
    st.floats(),
    st.text(max_size=40),
    st.lists(st.none() | st.integers(), max_size=3),
)
JUNK = (
    b"",
    b"\xff\xfe",
    b"\0",
    b"[" * 100_000,
    b'{"a":' * 20_000,
    b"9" * 6_000,
    b"1e999999",
    b"NaN",
    b"\\ud800",
    b'"id":1,"id":2,',
    b"\xef\xbb\xbf",
    b"]}",
    b"//",
)
Path = tuple[Any, ...]


def paths(value: Any, here: Path = ()) -> list[Path]:
    """Where the parts of a JSON value are, the whole first."""
    match value:
        case dict():
            parts = value.items()
        case list():
            parts = enumerate(value)
        case _:
            parts = ()
    return [here, *(path for name, part in parts for path in paths(part, (*here, name)))]


@st.composite
def spoiled(draw: st.DrawFn, message: Any) -> bytes:
    """The message with up to three parts replaced, removed or added, and its text with junk in it
    every other time."""
    message = copy.deepcopy(message)
    for _ in range(draw(st.integers(0, 3))):
        message = _with_one_part_spoiled(draw, message)
    text = json.dumps(message).encode()
    if draw(st.booleans()):
        return text
    begin = draw(st.integers(0, len(text)))
    end = draw(st.integers(begin, min(len(text), begin + 20)))
    return text[:begin] + draw(st.sampled_from(JUNK)) + text[end:]


def _with_one_part_spoiled(draw: st.DrawFn, message: Any) -> Any:
    *above, last = draw(st.sampled_from(paths({"whole": message})[1:]))
    parent: Any = {"whole": message}
    whole = parent
    for name in above:
        parent = parent[name]
    how = draw(st.sampled_from(("replace", "replace", "remove", "add")))
    if how == "remove":
        del parent[last]
    elif how == "add" and isinstance(parent[last], dict):
        parent[last][draw(st.text(max_size=9))] = copy.deepcopy(draw(ANYTHING))
    else:
        parent[last] = copy.deepcopy(draw(ANYTHING))
    return whole.get("whole")
