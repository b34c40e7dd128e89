"""A gateway that is killed again and again under stubs whose clients notice nothing but delay.

`--restarts 20` is the whole of it: 20 kills under 4 clients with 500 writes each.
"""

import threading
from collections import Counter

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError
from mcp_types import Implementation

from clients.restarting_gateway import RestartingGateway
from memory_bridge import client as raw
from waiting import wait_until

pytest.importorskip("memory_gateway.main", reason="needs the extra `server`")

MODES = ("legacy", "auto", "legacy", "auto")
WRITES_A_RESTART = 25
UNDER_WAY = 5


@pytest.fixture
def restarts(request):
    return request.config.getoption("--restarts")


@pytest.fixture
def gateway(tmp_path):
    with RestartingGateway(tmp_path).running() as gateway:
        yield gateway


class Writers:
    """One client for each mode, each behind a stub of its own; `answered` counts their writes."""

    def __init__(self, gateway, writes):
        self.answered = Counter()
        self.errors = []
        self._gateway = gateway
        self._writes = writes

    def run(self):
        anyio.run(self._run)

    async def _run(self):
        async with anyio.create_task_group() as tasks:
            for number, mode in enumerate(MODES):
                tasks.start_soon(self._client, f"client-{number}", mode)

    async def _client(self, name, mode):
        executable, *words = self._gateway.stub()
        stub = stdio_client(StdioServerParameters(command=executable, args=words))
        info = Implementation(name=name, version="1")
        under_way = anyio.Semaphore(UNDER_WAY)
        async with (
            Client(stub, mode=mode, client_info=info) as client,
            anyio.create_task_group() as tasks,
        ):
            for number in range(self._writes):
                await under_way.acquire()
                tasks.start_soon(self._write, client, name, number, under_way)

    async def _write(self, client, name, number, under_way):
        try:
            answer = await client.call_tool("memory_set", {"key": name, "value": str(number)})
            if answer.is_error:
                self.errors.append(answer.content)
        except MCPError as error:
            self.errors.append(error)
        self.answered[name] += 1
        under_way.release()


def values_written(gateway, key):
    """What the trail says was set, oldest first."""
    values, cursor = [], {}
    with raw.Client.http(gateway.url, token=gateway.token_file.read_text()) as client:
        while True:
            asked = {"key": key, "limit": 1000, **cursor}
            page = client.call_tool("memory_history", asked)["structuredContent"]
            values += [event["value_after"] for event in page["events"] if event["kind"] == "set"]
            if not page["next_cursor"]:
                return values[::-1]
            cursor = {"cursor": page["next_cursor"]}


@pytest.mark.timeout(600)
def test_every_write_lands_once_and_in_order_however_often_the_gateway_is_killed(gateway, restarts):
    restarted_under_writes(gateway, restarts, gateway.kill)


@pytest.mark.timeout(600)
def test_every_write_lands_once_and_in_order_when_the_gateway_is_stopped(gateway, restarts):
    restarted_under_writes(gateway, max(1, restarts // 4), gateway.stop)


def restarted_under_writes(gateway, restarts, end):
    writes = WRITES_A_RESTART * restarts
    writers = Writers(gateway, writes)
    thread = threading.Thread(target=writers.run, daemon=True)  # a failure must not wait for it
    thread.start()
    total = writes * len(MODES)
    for number in range(1, restarts + 1):
        due = number * total // (restarts + 1)
        wait_until(lambda due=due: writers.answered.total() >= due, seconds=120)
        end()
        gateway.start()
    thread.join(120)

    assert writers.errors == []
    assert writers.answered.total() == total
    expected = [str(number) for number in range(writes)]
    for key in writers.answered:
        assert values_written(gateway, key) == expected
