"""The tools through the SDK's own client, in both protocol eras."""

import json
from collections.abc import AsyncIterator

import pytest
from mcp import Client, MCPError
from mcp_types import Implementation

from gateway_serving import Drain
from memory_embedder.client import NoEmbedder
from memory_gateway.mcp import MemoryServer
from memory_gateway.memory import Memory
from memory_gateway.tools.facts import tools
from memory_store.contract import Invalid
from memory_store.store import SqlStore

pytestmark = pytest.mark.anyio

BUDGET = 2_500 * 4
LARGEST = 40_000


@pytest.fixture(params=["legacy", "2026-07-28"])
async def client(server: MemoryServer, request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    name = Implementation(name="sdk", version="1")
    async with Client(server.server, mode=request.param, client_info=name) as client:
        yield client


async def ask(client: Client, tool: str, **arguments):
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


async def refusal(client: Client, tool: str, **arguments):
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result.structured_content
    problem = result.structured_content["problem"]
    assert result.content[0].text.startswith(problem["message"])
    return problem


async def test_a_fact_that_was_set_is_read_back_with_its_author(client):
    written = await ask(client, "memory_set", key="a/b", value="hello", tags=["x"])
    read = await ask(client, "memory_get", key="a/b")
    assert read["found"]
    assert read["fact"]["value"] == "hello"
    assert read["fact"]["version"] == written["fact"]["version"] == 1
    assert read["fact"]["source_client"] == "sdk"
    assert read["fact"]["principal"] == "local"
    assert read["fact"]["self_reported"]


async def test_the_client_id_argument_names_the_author(client):
    written = await ask(client, "memory_set", key="k", value="v", client_id="robot")
    assert written["fact"]["source_client"] == "robot"


async def test_an_absent_key_is_not_an_error(client):
    assert await ask(client, "memory_get", key="none") == {"found": False, "fact": None}


async def test_a_conflict_carries_what_a_merge_needs(client):
    await ask(client, "memory_set", key="k", value="first", client_id="alice")
    await ask(client, "memory_set", key="k", value="second", client_id="bob")
    result = await client.call_tool(
        "memory_set", {"key": "k", "value": "mine", "expected_version": 1}
    )
    problem = result.structured_content["problem"]
    assert result.is_error
    assert problem["code"] == "conflict"
    assert problem["current"]["version"] == 2
    assert "second" in result.content[0].text
    assert "bob" in result.content[0].text


async def test_an_older_version_is_read_and_restored(client):
    first = await ask(client, "memory_set", key="k", value="old")
    await ask(client, "memory_set", key="k", value="new")
    for at in (1, "1", first["fact"]["created_at"]):
        assert (await ask(client, "memory_get", key="k", at=at))["fact"]["value"] == "old"
    restored = await ask(client, "memory_restore", key="k", version=1)
    assert (restored["fact"]["value"], restored["fact"]["version"]) == ("old", 3)


async def test_a_deleted_fact_is_returned_and_gone(client):
    await ask(client, "memory_set", key="k", value="v")
    assert (await ask(client, "memory_delete", key="k"))["removed"]["value"] == "v"
    assert not (await ask(client, "memory_get", key="k"))["found"]
    assert (await refusal(client, "memory_delete", key="k"))["code"] == "not_found"


async def test_search_finds_what_was_just_written_by_words_and_meaning(client):
    await ask(client, "memory_set", key="k", value="the database is Postgres")
    await ask(client, "memory_set", key="other", value="lunch at noon")
    found = await ask(client, "memory_search", query="which database")
    assert found["mode"] == "hybrid"
    assert found["degraded"] is None
    assert found["hits"][0]["fact"]["key"] == "k"
    assert 0 < found["hits"][0]["score"] <= 1


async def test_many_are_written_and_read_each_on_its_own(client):
    writes = [{"key": "a", "value": "1"}, {"key": "", "value": "2"}, {"key": "c", "value": "3"}]
    outcomes = (await ask(client, "memory_set_many", writes=writes))["outcomes"]
    assert [bool(outcome["fact"]) for outcome in outcomes] == [True, False, True]
    assert outcomes[1]["problem"]["code"] == "invalid_argument"
    facts = (await ask(client, "memory_get_many", keys=["c", "b", "a"]))["facts"]
    assert [fact and fact["value"] for fact in facts] == ["3", None, "1"]


async def test_history_names_every_author_newest_first(client):
    await ask(client, "memory_set", key="k", value="1", client_id="alice")
    await ask(client, "memory_delete", key="k", client_id="bob")
    events = (await ask(client, "memory_history", key="k"))["events"]
    kinds = [(event["kind"], event["source_client"]) for event in events]
    assert kinds == [("delete", "bob"), ("set", "alice")]
    assert all(event["request_id"] for event in events)


async def test_stats_count_and_name_the_version(client):
    await ask(client, "memory_set", key="k", value="v")
    stats = await ask(client, "memory_stats")
    assert stats["facts"] == 1
    assert stats["server_version"]


async def test_arguments_that_come_as_json_text_are_what_they_say(client):
    await ask(client, "memory_set", key="k", value="12", tags='["a", "b"]', metadata='{"n": 1}')
    await ask(
        client, "memory_set", key="k", value="13", expected_version="1", require_absent="false"
    )
    page = await ask(client, "memory_list", tags='["a"]', limit="10")
    assert page["facts"][0]["value"] == "13"
    assert page["facts"][0]["metadata"] == {"n": 1}
    many = await ask(client, "memory_set_many", writes='[{"key": "m", "value": "1"}]')
    assert many["outcomes"][0]["fact"]["key"] == "m"
    assert len((await ask(client, "memory_get_many", keys='["k", "m"]'))["facts"]) == 2


async def test_text_that_looks_like_json_stays_text(client):
    for value in ("12", "true", "null", '["a"]', '{"a": 1}', '"quoted"'):
        written = await ask(client, "memory_set", key="k", value=value)
        assert written["fact"]["value"] == value


async def test_null_for_an_optional_argument_means_that_it_was_left_out(client):
    nothing = {"tags": None, "expected_version": None, "namespace": None, "ttl_seconds": None}
    assert (await ask(client, "memory_set", key="k", value="v", **nothing))["fact"]["version"] == 1


@pytest.mark.parametrize(
    ("tool", "arguments", "argument", "words"),
    [
        ("memory_set", {"key": "", "value": "v"}, "key", "empty"),
        ("memory_set", {"key": "k" * 257, "value": "v"}, "key", "256"),
        ("memory_set", {"key": "a\0b", "value": "v"}, "key", "NUL"),
        ("memory_set", {"key": "k", "value": "v" * 16_385}, "value", "16,384"),
        ("memory_set", {"key": "k", "value": 5}, "value", "must be text"),
        ("memory_set", {"key": "k", "value": "v", "tags": "a,b"}, "tags", "a list of texts"),
        ("memory_set", {"key": "k", "value": "v", "tags": ["a", 1]}, "tags", "tags[1]"),
        ("memory_set", {"key": "k", "value": "v", "valeu": 1}, "valeu", "Did you mean `value`"),
        ("memory_set", {"key": "k", "value": "v", "metadata": {"a": "\ud800"}}, "metadata", "surr"),
        ("memory_set", {"key": "k"}, "value", "required"),
        ("memory_search", {"query": "q", "top_k": 0}, "top_k", "from 1 to 100, not 0"),
        ("memory_search", {"query": "q", "top_k": 10_000}, "top_k", "from 1 to 100, not 10000"),
        ("memory_search", {"query": "q", "top_k": True}, "top_k", "not true"),
        ("memory_search", {"query": "q", "mode": "fuzzy"}, "mode", "hybrid, semantic, lexical"),
        ("memory_search", {"query": ""}, "query", "at least 1"),
        ("memory_list", {"cursor": "nonsense"}, "cursor", "cursor"),
        ("memory_list", {"limit": 1001}, "limit", "from 1 to 1000"),
        ("memory_get", {"key": "k", "at": "yesterday"}, "at", "ISO 8601"),
        ("memory_get_many", {"keys": []}, "keys", "1 to 100 texts, not of 0."),
        ("memory_get_many", {"keys": ["k"] * 101}, "keys", "1 to 100 texts, not of 101."),
        ("memory_set_many", {"writes": [{"key": "k", "vlaue": "v"}]}, "writes", "`value`"),
    ],
)
async def test_bad_input_is_named_and_changes_nothing(client, tool, arguments, argument, words):
    problem = await refusal(client, tool, **arguments)
    assert problem["code"] == "invalid_argument"
    assert problem["argument"] == argument
    assert words in problem["message"]
    assert "pydantic" not in problem["message"]
    assert (await ask(client, "memory_stats"))["versions"] == 0


def test_a_number_that_is_none_is_named_by_its_path():
    [memory_set] = [tool for tool in tools() if tool.name == "memory_set"]
    given = {"key": "k", "value": "v", "metadata": {"a": {"b": [1, float("nan")]}}}
    with pytest.raises(Invalid, match=r"`metadata\.a\.b\[1\]` must be a finite number") as refused:
        memory_set.read(given)
    assert refused.value.argument == "metadata"


async def test_two_conditions_at_once_are_refused(client):
    problem = await refusal(
        client, "memory_set", key="k", value="v", expected_value="x", require_absent=True
    )
    assert problem["code"] == "invalid_argument"
    assert not (await ask(client, "memory_get", key="k"))["found"]


async def test_an_unknown_tool_is_a_protocol_error_that_names_the_tools(client):
    with pytest.raises(MCPError, match="memory_set") as error:
        await client.call_tool("memory_put", {})
    assert error.value.code == -32602


async def test_every_tool_has_words_hints_and_schemas(client):
    listed = (await client.list_tools()).tools
    assert [tool.name for tool in listed] == [tool.name for tool in tools(demo=True)]
    for tool in listed:
        assert tool.title
        assert tool.description
        assert tool.output_schema["type"] == "object"
        assert tool.annotations.open_world_hint is False
        assert tool.annotations.read_only_hint != tool.annotations.destructive_hint or (
            tool.name == "lock_hold"
        )


def test_the_tools_cost_a_model_little():
    texts = [
        tool.name + tool.description + json.dumps(tool.input_schema, separators=(",", ":"))
        for tool in tools()
    ]
    assert sum(map(len, texts)) <= BUDGET


@pytest.mark.parametrize("noise", ['"title"', "$defs", "$ref", "null"])
def test_input_schemas_hold_nothing_that_tells_a_model_nothing(noise):
    assert noise not in json.dumps([tool.input_schema for tool in tools(demo=True)])


def test_the_demo_tool_is_there_only_when_asked_for():
    assert {tool.name for tool in tools(demo=True)} - {tool.name for tool in tools()} == {
        "lock_hold"
    }


async def test_long_lists_end_early_and_the_cursor_continues(client):
    keys = [f"k{number:02}" for number in range(12)]
    for key in keys:
        await ask(client, "memory_set", key=key, value="x" * 9_000)
    seen, cursor = [], None
    while True:
        page = await client.call_tool("memory_list", {"limit": 100, "cursor": cursor})
        assert len(page.content[0].text) < LARGEST
        seen += [fact["key"] for fact in page.structured_content["facts"]]
        cursor = page.structured_content["next_cursor"]
        if cursor is None:
            break
    assert seen == keys


@pytest.mark.parametrize("tool", ["memory_search", "memory_history", "memory_set_many"])
async def test_long_values_among_many_are_shortened_and_marked(client, tool):
    writes = [{"key": f"k{number}", "value": f"word {'x' * 15_000}"} for number in range(10)]
    written = await client.call_tool("memory_set_many", {"writes": writes})
    arguments = {"memory_search": {"query": "word", "top_k": 10}, "memory_history": {}}
    result = await client.call_tool(tool, arguments[tool]) if tool in arguments else written
    assert len(result.content[0].text) < LARGEST
    assert len(json.dumps(result.structured_content)) < LARGEST
    assert '"value_cut":true' in result.content[0].text


async def test_a_long_history_goes_on_with_its_cursor(client):
    for start in range(0, 400, 100):
        writes = [{"key": f"k{start + n}", "value": "v" * 100} for n in range(100)]
        await ask(client, "memory_set_many", writes=writes)
    seen, cursor = [], None
    while True:
        page = await client.call_tool("memory_history", {"limit": 1000, "cursor": cursor})
        assert len(page.content[0].text) < LARGEST
        seen += [event["key"] for event in page.structured_content["events"]]
        cursor = page.structured_content["next_cursor"]
        if cursor is None:
            break
    assert seen == [f"k{number}" for number in reversed(range(400))]


async def test_a_hundred_hits_fit_or_say_how_many_were_left_out(client):
    writes = [{"key": f"{'k' * 200}{n}", "value": f"word {n} {'y' * 200}"} for n in range(100)]
    await ask(client, "memory_set_many", writes=writes)
    result = await client.call_tool("memory_search", {"query": "word", "top_k": 100})
    found = result.structured_content
    assert len(result.content[0].text) < LARGEST
    assert len(found["hits"]) + found["left_out"] == 100


async def test_facts_that_do_not_fit_are_counted(client):
    keys = [f"k{number}" for number in range(5)]
    for key in keys:
        await ask(client, "memory_set", key=key, value="x" * 15_000)
    result = await client.call_tool("memory_get_many", {"keys": keys})
    assert len(result.content[0].text) < LARGEST
    assert [fact["key"] for fact in result.structured_content["facts"]] == keys[:2]
    assert result.structured_content["left_out"] == 3


async def test_search_without_an_embedder_says_why_it_went_by_words(store: SqlStore):
    memory = Memory(store, NoEmbedder("No model is installed."))
    async with Client(MemoryServer(memory, tools()).server) as client:
        await ask(client, "memory_set", key="k", value="a word")
        found = await ask(client, "memory_search", query="word")
        assert (found["mode"], found["degraded"]) == ("lexical", "No model is installed.")
        found = await ask(client, "memory_search", query="word", mode="lexical")
        assert (found["mode"], found["degraded"]) == ("lexical", None)


async def test_search_before_any_vector_says_that_it_went_by_words(memory: Memory):
    silent = Memory(memory.store, memory.embedder)
    async with Client(MemoryServer(silent, tools()).server) as client:
        await ask(client, "memory_set", key="k", value="a word")
        found = await ask(client, "memory_search", query="word")
        assert found["mode"] == "lexical"
        assert "vector" in found["degraded"]


class BrokenStore(SqlStore):
    def fact_get(self, *_arguments, **_named):
        raise RuntimeError("SELECT /secret/path")


async def test_an_internal_error_leaks_nothing_and_is_whole_in_the_log(store, memory, caplog):
    broken = BrokenStore.__new__(BrokenStore)
    broken.__dict__.update(store.__dict__)
    server = MemoryServer(Memory(broken, memory.embedder, Drain(store, None)), tools())
    async with Client(server.server) as client:
        problem = await refusal(client, "memory_get", key="k")
        with pytest.raises(MCPError) as error:
            await client.read_resource("memory://default/k")
    assert problem["code"] == "internal"
    for told in (json.dumps(problem), str(error.value)):
        assert "SELECT" not in told
        assert "secret" not in told
    assert "SELECT /secret/path" in caplog.text
    assert problem["message"].split()[-1].rstrip(".") in caplog.text
