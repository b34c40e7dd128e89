"""Completions: namespaces, keys and tags by their beginning, for the template and the prompts."""

import pytest
from mcp import Client, MCPError
from mcp_types import CompleteRequestParams as Params
from mcp_types import PromptReference, ResourceTemplateReference

from memory_gateway.completions import complete
from memory_gateway.context import Context
from memory_gateway.guard import GuardedStore
from memory_gateway.principals import Principal
from memory_gateway.resources import TEMPLATE
from memory_store.contract import Caller, FactWrite, Forbidden

pytestmark = pytest.mark.anyio

FACT = ResourceTemplateReference(uri=TEMPLATE.uri_template)
RECALL = PromptReference(name="recall")
CALLER = Caller(principal="token:ci", source_client="ci")
FACTS = [
    ("default", "deploy/port", ("ops", "net")),
    ("default", "deploy/host", ("ops",)),
    ("default", "design/50%_", ("open",)),
    ("work", "deploy/elsewhere", ("outing",)),
]


@pytest.fixture(params=["legacy", "2026-07-28"])
async def client(server, request):
    async with Client(server.server, mode=request.param) as client:
        yield client


@pytest.fixture(autouse=True)
def facts(memory):
    for namespace, key, tags in FACTS:
        write = FactWrite(namespace=namespace, key=key, value="v", tags=tags)
        memory.store.fact_set(CALLER, write)


async def completed(client, reference, name, beginning, **others):
    argument = {"name": name, "value": beginning}
    answer = await client.complete(reference, argument, context_arguments=others or None)
    return answer.completion


@pytest.mark.parametrize(
    ("reference", "name", "beginning", "values"),
    [
        (FACT, "namespace", "", ["default", "work"]),
        (FACT, "namespace", "w", ["work"]),
        (FACT, "key", "deploy/", ["deploy/host", "deploy/port"]),
        (FACT, "key", "design/50%", ["design/50%_"]),
        (FACT, "key", "nothing", []),
        (RECALL, "topic", "des", ["design/50%_"]),
        (RECALL, "namespace", "d", ["default"]),
        (RECALL, "tag", "o", ["open", "ops"]),
        (PromptReference(name="handoff"), "namespace", "wo", ["work"]),
    ],
)
async def test_an_argument_is_completed_by_its_beginning(
    client, reference, name, beginning, values
):
    completion = await completed(client, reference, name, beginning)
    assert completion.values == values
    assert (completion.total, completion.has_more) == (len(values), False)


async def test_keys_and_tags_are_those_of_the_namespace_that_is_given(client):
    there = {"namespace": "work"}
    assert (await completed(client, FACT, "key", "d", **there)).values == ["deploy/elsewhere"]
    assert (await completed(client, RECALL, "tag", "", **there)).values == ["outing"]


async def test_at_most_a_hundred_are_told_and_that_there_are_more(client, memory):
    for number in range(101):
        write = FactWrite(namespace=f"n{number:03}", key="k", value="v")
        memory.store.fact_set(CALLER, write)
        many = FactWrite(key=f"many/{number:03}", value="v", tags=(f"many{number:03}",))
        memory.store.fact_set(CALLER, many)
    namespaces = await completed(client, FACT, "namespace", "n")
    assert (len(namespaces.values), namespaces.total, namespaces.has_more) == (100, 101, True)
    for reference, name in ((FACT, "key"), (RECALL, "tag")):
        completion = await completed(client, reference, name, "many")
        assert (len(completion.values), completion.total, completion.has_more) == (100, None, True)


@pytest.mark.parametrize(
    ("reference", "name", "words"),
    [
        (FACT, "tag", "`tag` is not an argument of memory"),
        (ResourceTemplateReference(uri="file:///{path}"), "path", "Nothing is completed for"),
        (PromptReference(name="remember"), "topic", "but for: recall, handoff"),
        (RECALL, "depth", "Completed are: topic, namespace, tag"),
    ],
)
async def test_what_cannot_be_completed_says_what_can(client, reference, name, words):
    with pytest.raises(MCPError, match=words) as error:
        await completed(client, reference, name, "x")
    assert error.value.code == -32602


async def test_nothing_is_told_of_a_namespace_out_of_reach(memory):
    principal = Principal("token:ci", "ci", frozenset({"read"}), frozenset({"work"}))
    context = Context(GuardedStore(memory.store, principal), memory.embedder, CALLER)

    def asked(reference, name, **others):
        params = {"ref": reference, "argument": {"name": name, "value": ""}}
        return complete(context, Params.model_validate(params | {"context": {"arguments": others}}))

    assert asked(FACT, "namespace").completion.values == ["work"]
    for reference, name in ((FACT, "key"), (RECALL, "tag")):
        with pytest.raises(Forbidden):
            asked(reference, name)
        assert asked(reference, name, namespace="work").completion.values


async def test_recall_looks_only_among_facts_with_the_tag(client):
    text = await client.get_prompt("recall", {"topic": "deploy v", "tag": "net"})
    assert "deploy/port" in text.messages[0].content.text
    assert "deploy/host" not in text.messages[0].content.text
