"""The official Python SDK's client: does what the lines on stdin ask, and says what came of it.

A script; its argument is how to negotiate, `legacy` or `auto`. For WebSockets, which the SDK has no
transport for any more, it is given one of a dozen lines.
"""

import asyncio
import json
import sys
import warnings
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import anyio
import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.message import SessionMessage
from mcp_types import (
    ResourceTemplateReference,
    ResourceUpdatedNotification,
    jsonrpc_message_adapter,
)
from websockets.asyncio.client import connect

TEMPLATE = ResourceTemplateReference(type="ref/resource", uri="memory://{namespace}/{key}")
MODERN = "2026-07-28"
SECONDS = 30.0


def say(**message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


@asynccontextmanager
async def http(url, token):
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=SECONDS) as web,
        streamable_http_client(url, http_client=web) as streams,
    ):
        yield streams


def sse(url, token):
    return sse_client(url, headers={"Authorization": f"Bearer {token}"})


@asynccontextmanager
async def websocket(url, token):
    headers = {"Authorization": f"Bearer {token}"}
    to_client, incoming = anyio.create_memory_object_stream(0)
    outgoing, from_client = anyio.create_memory_object_stream(0)

    async def read(socket):
        async with to_client:
            async for text in socket:
                message = jsonrpc_message_adapter.validate_json(text, by_name=False)
                await to_client.send(SessionMessage(message))

    async def write(socket):
        async for item in from_client:
            await socket.send(item.message.model_dump_json(by_alias=True, exclude_unset=True))

    async with (
        connect(url, additional_headers=headers, subprotocols=["mcp"]) as socket,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(read, socket)
        tasks.start_soon(write, socket)
        yield incoming, outgoing
        tasks.cancel_scope.cancel()


def target_of(transport, url=None, token=None, command=(), env=None):
    if transport == "stdio":
        return StdioServerParameters(command=command[0], args=command[1:], env=env)
    return {"http": http, "sse": sse, "ws": websocket}[transport](url, token)


class Connection:
    """A client in a task of its own, since some of what breaks a transport ends its task."""

    def __init__(self, mode, target):
        self._orders = asyncio.Queue()
        self._task = asyncio.create_task(self._live(mode, target))

    async def do(self, order, **wanted):
        """Raises whatever the client does, then or before."""
        done = asyncio.get_running_loop().create_future()
        self._orders.put_nowait((getattr(self, order), wanted, done))
        await asyncio.wait((done, self._task), return_when=asyncio.FIRST_COMPLETED)
        return done.result() if done.done() else self._task.result()

    async def close(self):
        self._orders.put_nowait(None)
        await asyncio.wait((self._task,))

    async def _live(self, mode, target):
        async with AsyncExitStack() as self._opened:
            client = Client(target_of(**target), mode=mode, message_handler=hear)
            self._client = await self._opened.enter_async_context(client)
            while item := await self._orders.get():
                order, wanted, done = item
                try:
                    done.set_result(await order(**wanted))
                except Exception as error:  # noqa: BLE001  whatever it is, the test judges it
                    done.set_exception(error)

    async def version(self):
        return self._client.protocol_version

    async def tools(self):
        return [tool.name for tool in (await self._client.list_tools()).tools]

    async def call(self, tool, arguments):
        answer = await self._client.call_tool(tool, arguments)
        if answer.is_error:
            raise RuntimeError(answer.content[0].text)
        return answer.structured_content

    async def read(self, uri):
        return (await self._client.read_resource(uri)).contents[0].text

    async def complete(self, value):
        argument = {"name": "key", "value": value}
        return (await self._client.complete(TEMPLATE, argument)).completion.values

    async def subscribe(self, uri):
        if self._client.protocol_version < MODERN:
            await self._client.subscribe_resource(uri)
            return
        subscribed = self._client.listen(resource_subscriptions=[uri])
        subscription = await self._opened.enter_async_context(subscribed)
        self._forwarding = asyncio.create_task(forward(subscription))


async def forward(subscription):
    with suppress(SubscriptionLost):
        async for event in subscription:
            say(heard=event.uri)


async def hear(message):
    if isinstance(message, ResourceUpdatedNotification):
        say(heard=message.params.uri)


async def obey(mode):
    connection = None
    while line := await asyncio.to_thread(sys.stdin.readline):
        wanted = json.loads(line)
        number, order = wanted.pop("id"), wanted.pop("order")
        try:
            if order == "connect":
                if connection:
                    await connection.close()
                connection, order, wanted = Connection(mode, wanted), "version", {}
            say(id=number, result=await connection.do(order, **wanted))
        except Exception as error:  # noqa: BLE001  the same
            say(id=number, error=sentence(error))


def sentence(error):
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    asyncio.run(obey(sys.argv[1]))
