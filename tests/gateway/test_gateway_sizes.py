"""Answers stay under the size that clients accept, whatever is stored."""

import json
from itertools import product

import pytest
from mcp import Client

from memory_embedder.client import NoEmbedder
from memory_gateway.mcp import MemoryServer
from memory_gateway.memory import Memory
from memory_gateway.tools.facts import tools
from memory_gateway.tools.results import LIMIT, clip, json_length

pytestmark = pytest.mark.anyio

NASTY = {
    "plain": "x",
    "quotes": '"',
    "control characters": "\x01",
    "emoji": "\U0001f600",
    "mixed": '\\\n"é中',
}


def text(unit, length):
    return (unit * length)[:length]


def fact(unit, number, *, value, metadata, key=240):
    """A write of the sizes given, its key and tags as nasty as the rest."""
    return {
        "key": text(unit, key) + f"/{number:03}",
        "value": text(unit, value),
        "metadata": {"m": text(unit, metadata)} if metadata else {},
        "tags": [text(unit, 120) + str(tag) for tag in range(64 if metadata else 1)],
    }


@pytest.fixture
async def client(store):
    memory = Memory(store, NoEmbedder("What is stored matters here, not how it is found."))
    async with Client(MemoryServer(memory, tools()).server) as client:
        yield client


async def told(client, tool, **arguments):
    """The structured answer of a call whose text is no longer than it may be."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert len(result.content[0].text) <= LIMIT, f"{tool} {arguments.keys()}"
    assert json.loads(result.content[0].text)
    return result.structured_content


SIZES = {
    "many small": (100, 20, 0),
    "large values": (20, 16_000, 0),
    "large metadata": (30, 200, 2_000),
}


@pytest.mark.parametrize("unit", NASTY.values(), ids=NASTY)
@pytest.mark.parametrize(("many", "value", "metadata"), SIZES.values(), ids=SIZES)
async def test_no_list_is_longer_than_it_may_be(client, unit, many, value, metadata):
    writes = [fact(unit, number, value=value, metadata=metadata) for number in range(many)]
    keys = [write["key"] for write in writes]
    written = await told(client, "memory_set_many", writes=writes)
    again = await told(client, "memory_set_many", writes=writes)
    assert len(written["outcomes"]) == len(again["outcomes"]) == many
    assert not any(outcome["problem"] for outcome in written["outcomes"] + again["outcomes"])

    refused = [write | {"require_absent": True} for write in writes]
    conflicts = (await told(client, "memory_set_many", writes=refused))["outcomes"]
    assert {outcome["problem"]["code"] for outcome in conflicts} == {"conflict"}

    some = await told(client, "memory_get_many", keys=keys)
    assert len(some["facts"]) + some["left_out"] == many
    assert some["facts"][0]["key"] == keys[0]
    absent = await told(client, "memory_get_many", keys=[f"{key}?" for key in keys])
    assert absent["facts"] == [None] * many
    assert (await told(client, "memory_search", query=f"{unit} x", top_k=100)) is not None
    for limit, reads in product((1, 1_000), (False, True)):
        events = await told(client, "memory_history", limit=limit, include_reads=reads)
        assert events["events"]
        assert (await told(client, "memory_list", limit=limit))["facts"]


@pytest.mark.parametrize("unit", NASTY.values(), ids=NASTY)
async def test_paging_through_what_is_cut_short_leaves_nothing_out(client, unit):
    writes = [fact(unit, number, value=9_000, metadata=100, key=100) for number in range(12)]
    for write in writes:
        assert not (await client.call_tool("memory_set", write)).is_error
    seen, cursor = [], None
    while True:
        page = await told(client, "memory_list", limit=100, cursor=cursor)
        seen += [listed["key"] for listed in page["facts"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == [write["key"] for write in writes]


async def test_one_fact_has_its_value_whole_and_its_metadata_only_where_there_is_room(client):
    write = fact("x", 1, value=16_000, metadata=16_000)
    answers = [
        (await told(client, "memory_set", **write))["fact"],
        (await told(client, "memory_get", key=write["key"]))["fact"],
        (await told(client, "memory_restore", key=write["key"], version=1))["fact"],
        (await told(client, "memory_delete", key=write["key"]))["removed"],
    ]
    for answer in answers:
        assert answer["value"] == write["value"]
        assert (answer["metadata_cut"], answer["metadata"], answer["tags"]) == (True, {}, [])
    small = fact("x", 2, value=100, metadata=100)
    written = (await told(client, "memory_set", **small))["fact"]
    assert (written["metadata"], written["metadata_cut"]) == (small["metadata"], False)


async def test_a_value_whose_json_alone_is_too_long_is_whole_when_asked_for_by_its_key(client):
    value = "\x01" * 16_000
    await client.call_tool("memory_set", {"key": "k", "value": value})
    result = await client.call_tool("memory_get", {"key": "k"})
    assert result.structured_content["fact"]["value"] == value
    conflict = await client.call_tool(
        "memory_set", {"key": "k", "value": "", "expected_version": 9}
    )
    assert len(conflict.content[0].text) <= LIMIT


@pytest.mark.parametrize("unit", NASTY.values(), ids=NASTY)
@pytest.mark.parametrize("limit", [1, 50, 1_000])
async def test_a_clipped_text_is_a_beginning_that_fits(unit, limit):
    whole = text(unit, 10_000)
    clipped = clip(whole, limit)
    assert whole.startswith(clipped)
    assert json_length(clipped) <= limit
    assert clip(clipped, limit) == clipped
