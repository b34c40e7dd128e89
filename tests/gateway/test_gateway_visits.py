"""What is under way when a token ends, whatever the application makes of it."""

import asyncio

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from memory_gateway import visits
from memory_gateway.app import Application, Door
from memory_gateway.auth import BearerDoor
from memory_gateway.observation.metrics import Metrics
from memory_gateway.observation.observer import Observer
from memory_gateway.principals import INSTALLATION
from memory_store.contract import Unavailable

SECONDS = 20
FOREVER = 3600
BEARER = [(b"authorization", b"Bearer of-the-tests")]
START = {"type": "http.response.start", "status": 200, "headers": []}
PART = {"type": "http.response.body", "body": b"part", "more_body": True}
END = {"type": "http.response.body", "body": b""}

pytestmark = pytest.mark.anyio


class Judge:
    """A verifier that says what the test lets it say."""

    def __init__(self):
        self.principal = INSTALLATION
        self.trouble = None
        self.asked = 0

    async def verify(self, _proof):
        self.asked += 1
        if self.trouble:
            raise self.trouble
        return self.principal


class Visitor:
    """A client that says nothing, and reads as long as `reads` is set."""

    def __init__(self, kind="http"):
        self.scope = {"type": kind, "method": "GET", "path": "/mcp", "headers": BEARER}
        self.heard = []
        self.reads = asyncio.Event()
        self.reads.set()
        self.left = asyncio.Event()

    async def receive(self):
        await self.left.wait()
        return {"type": f"{self.scope['type']}.disconnect"}

    async def send(self, message):
        await self.reads.wait()
        self.heard.append(message)

    @property
    def statuses(self):
        return [message["status"] for message in self.heard if "status" in message]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(visits, "EVERY_SECONDS", 0.01)
    monkeypatch.setattr(visits, "GRACE_SECONDS", 0.05)
    monkeypatch.setattr(visits, "FAREWELL_SECONDS", 0.05)


@pytest.fixture
def judge():
    return Judge()


@pytest.fixture
async def visit(judge):
    """Lets a visitor in to an application, and returns when it is out again."""
    async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as tasks:
        watches = []

        async def visit(app, visitor):
            door = BearerDoor(app, judge)
            watches.append(tasks.create_task(door.watch()))
            await door(visitor.scope, visitor.receive, visitor.send)
            assert door._visits._open == {}

        yield visit
        for watch in watches:
            watch.cancel()


async def test_an_application_that_hears_of_no_end_is_cancelled_and_its_client_refused(
    judge, visit
):
    cancelled = asyncio.Event()

    async def app(_scope, _receive, _send):
        judge.principal = None
        try:
            await asyncio.sleep(FOREVER)
        finally:
            cancelled.set()

    visitor = Visitor()
    judge.principal = INSTALLATION
    await visit(app, visitor)
    assert cancelled.is_set()
    assert visitor.statuses == [401]
    assert b"any more" in visitor.heard[-1]["body"]


async def test_an_application_that_waits_for_its_client_hears_that_it_has_gone(judge, visit):
    heard = []

    async def app(_scope, receive, send):
        await send(START)
        await send(PART)
        judge.principal = None
        heard.append(await receive())
        await send(PART)

    visitor = Visitor()
    await visit(app, visitor)
    assert heard == [{"type": "http.disconnect"}]
    assert visitor.heard == [START, PART, END]


async def test_a_response_of_a_given_length_is_not_pretended_to_be_whole(judge, visit):
    begun = START | {"headers": [(b"content-length", b"100")]}

    async def app(_scope, receive, send):
        await send(begun)
        await send(PART)
        judge.principal = None
        await receive()

    visitor = Visitor()
    await visit(app, visitor)
    assert visitor.heard == [begun, PART]


async def test_what_goes_wrong_after_the_end_is_nobodys_fault(judge, visit):
    async def app(_scope, receive, _send):
        judge.principal = None
        await receive()
        raise ConnectionError

    visitor = Visitor()
    await visit(app, visitor)
    assert visitor.statuses == [401]


async def test_what_goes_wrong_before_is_passed_on(visit):
    async def app(_scope, _receive, _send):
        raise ConnectionError

    with pytest.raises(ConnectionError):
        await visit(app, Visitor())


async def test_a_client_that_does_not_read_is_not_waited_for(judge, visit):
    visitor = Visitor()

    async def app(_scope, _receive, send):
        await send(START)
        visitor.reads.clear()
        judge.principal = None
        await send(PART)

    await visit(app, visitor)
    assert visitor.heard == [START]


@pytest.mark.parametrize("accepted", [True, False])
async def test_a_websocket_is_closed_with_the_reason(judge, visit, accepted):
    heard = []

    async def app(_scope, receive, send):
        if accepted:
            await send({"type": "websocket.accept"})
        judge.principal = None
        heard.append((await receive())["type"])

    visitor = Visitor("websocket")
    await visit(app, visitor)
    assert heard == ["websocket.disconnect"]
    assert (visitor.heard[-1]["type"], visitor.heard[-1]["code"]) == ("websocket.close", 1008)


async def test_while_the_store_is_away_nothing_is_ended_and_nobody_let_in(judge, visit):
    async def app(_scope, _receive, send):
        judge.trouble = Unavailable("it is away")
        asked = judge.asked
        while judge.asked < asked + 3:  # noqa: ASYNC110  the door asks by itself
            await asyncio.sleep(0.01)
        await send(START)
        await send(END)

    first, second = Visitor(), Visitor()
    await visit(app, first)
    await visit(app, second)
    assert (first.statuses, second.statuses) == ([200], [503])
    assert dict(second.heard[0]["headers"])[b"retry-after"] == b"1"


async def test_behind_a_door_nothing_is_local(server, memory, judge):
    Application(server, memory, Door(judge), Observer(Metrics(), None))
    refused = pytest.RaisesExc(MCPError, match="proves")
    with pytest.RaisesGroup(refused, flatten_subgroups=True):
        async with Client(server.server):
            pass
