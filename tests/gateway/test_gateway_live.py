"""Live memory: whoever subscribed hears of what any process writes, within its reach."""

import asyncio
import threading
from contextlib import AsyncExitStack, asynccontextmanager, closing
from types import SimpleNamespace

import pytest
from mcp import Client, MCPError
from mcp.shared.subscriptions import ResourceUpdated
from mcp_types import ResourceUpdatedNotification, SubscribeRequestParams

from memory_gateway.interest import MOST_URIS, Interest, Notices
from memory_gateway.live import AT_ONCE, News, Trail
from memory_gateway.principals import Principal
from memory_gateway.resources import fact_uri
from memory_gateway.subscriptions import SessionSubscriptions
from memory_store.contract import Caller, EventFeed, FactWrite, Forbidden, Unavailable
from memory_store.opening import open_store
from memory_store.settings import StoreSettings

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore:resources/.*subscribe is removed"),
]

CALLER = Caller(principal="local", source_client="another process")
SECONDS = 10
LISTED = "list"
ERAS = ["legacy", "2026-07-28"]


@pytest.fixture
def other(tmp_path):
    """The same memory as another process has it."""
    with closing(open_store(StoreSettings(memory_db=tmp_path / "memory.db"))) as store:
        yield store


class Heard:
    """What a client hears: URIs, and that the list has changed."""

    def __init__(self, client):
        self.client = client
        self.queue = asyncio.Queue()

    async def next(self):
        return await asyncio.wait_for(self.queue.get(), SECONDS)

    async def until(self, last):
        """Returns all up to the last."""
        heard = [await self.next()]
        while heard[-1] != last:
            heard.append(await self.next())
        return heard


@asynccontextmanager
async def listening(server, era, *keys, namespace="default"):
    """A client that has subscribed to facts and to the list of them."""
    heard = Heard(None)
    uris = [fact_uri(namespace, key) for key in keys]

    async def hear(message):
        if isinstance(message, ResourceUpdatedNotification):
            heard.queue.put_nowait(message.params.uri)
        elif getattr(message, "method", "") == "notifications/resources/list_changed":
            heard.queue.put_nowait(LISTED)

    async def forward(subscription):
        async for event in subscription:
            told = event.uri if isinstance(event, ResourceUpdated) else LISTED
            heard.queue.put_nowait(told)

    handler = hear if era == "legacy" else None
    async with Client(server.server, mode=era, message_handler=handler) as heard.client:
        if era == "legacy":
            for uri in uris:
                await heard.client.subscribe_resource(uri)
            yield heard
            return
        subscribed = heard.client.listen(resources_list_changed=True, resource_subscriptions=uris)
        async with subscribed as subscription:
            forwarding = asyncio.create_task(forward(subscription))
            yield heard
            forwarding.cancel()


async def set_fact(store, key, value="v", **write):
    fact = FactWrite(key=key, value=value, **write)
    return await asyncio.to_thread(store.fact_set, CALLER, fact)


@pytest.mark.parametrize("era", ERAS)
async def test_a_subscriber_hears_of_what_another_process_writes(server, other, era):
    async with listening(server, era, "k") as heard:
        await set_fact(other, "k")
        assert await heard.next() == fact_uri("default", "k")
        assert await heard.next() == LISTED


@pytest.mark.parametrize("era", ERAS)
async def test_a_subscriber_hears_of_what_another_client_writes_here(server, era):
    async with listening(server, era, "k") as heard, Client(server.server) as writer:
        await writer.call_tool("memory_set", {"key": "k", "value": "v"})
        assert await heard.next() == fact_uri("default", "k")


@pytest.mark.parametrize("era", ERAS)
async def test_the_list_changes_with_the_facts_that_there_are_and_not_with_their_values(
    server, other, era
):
    async with listening(server, era, "k", "end") as heard:
        uri, end = fact_uri("default", "k"), fact_uri("default", "end")
        await set_fact(other, "k", "1")
        assert await heard.until(LISTED) == [uri, LISTED]
        await set_fact(other, "k", "2")
        await asyncio.to_thread(other.fact_restore, CALLER, "default", "k", 1)
        await set_fact(other, "end")
        assert (await heard.until(LISTED))[-2:] == [end, LISTED]
        await asyncio.to_thread(other.fact_delete, CALLER, "default", "k")
        assert await heard.until(LISTED) == [uri, LISTED]
        await asyncio.to_thread(other.fact_restore, CALLER, "default", "k", 1)
        assert await heard.until(LISTED) == [uri, LISTED]


@pytest.mark.parametrize("era", ERAS)
async def test_a_fact_that_expires_is_heard_of(server, other, era):
    async with listening(server, era, "k") as heard:
        await set_fact(other, "k", ttl_seconds=0.001)
        await heard.until(LISTED)
        assert await heard.until(LISTED) == [fact_uri("default", "k"), LISTED]


@pytest.mark.parametrize("era", ERAS)
async def test_a_namespace_with_another_name_has_changed_under_both(server, other, era):
    await set_fact(other, "k", namespace="old")
    async with (
        listening(server, era, "k", namespace="old") as before,
        listening(server, era, "k", namespace="new") as after,
    ):
        await asyncio.to_thread(other.namespace_rename, CALLER, "old", "new")
        assert await before.until(LISTED) == [fact_uri("old", "k"), LISTED]
        assert await after.until(LISTED) == [fact_uri("new", "k"), LISTED]


async def test_the_notice_names_the_uri_that_was_subscribed_to(server, other):
    async with listening(server, "legacy") as heard:
        await heard.client.subscribe_resource("memory://default/a/b")
        await set_fact(other, "a/b")
        assert await heard.next() == "memory://default/a/b"


async def test_who_has_unsubscribed_hears_no_more(server, other):
    async with listening(server, "legacy", "k", "other") as heard:
        await heard.client.unsubscribe_resource(fact_uri("default", "k"))
        await set_fact(other, "k")
        await set_fact(other, "other")
        assert fact_uri("default", "k") not in await heard.until(fact_uri("default", "other"))
        assert server.counts()["resources"] == 1


@pytest.mark.parametrize("era", ERAS)
async def test_nobody_is_counted_any_more_who_has_gone(server, era):
    async with listening(server, era, "k"):
        counts = server.counts()
        assert counts["sessions"] + counts["listen_streams"] == 1
        assert server.live.writes.listeners == 1
    await wait_for(lambda: not any(server.counts().values()))
    assert server.live.writes.listeners == 0


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_the_server_says_what_it_tells(server, era):
    async with Client(server.server, mode=era) as client:
        assert client.server_capabilities.resources.list_changed
        assert client.server_capabilities.resources.subscribe


async def test_one_may_subscribe_to_what_is_no_fact_and_hears_nothing(server, other):
    async with listening(server, "legacy", "k") as heard:
        await heard.client.subscribe_resource("test://elsewhere")
        await set_fact(other, "test://elsewhere")
        await set_fact(other, "k")
        assert "test://elsewhere" not in await heard.until(fact_uri("default", "k"))


async def test_one_resource_too_many_is_refused(server):
    async with Client(server.server, mode="legacy") as client:
        for number in range(MOST_URIS):
            await client.subscribe_resource(fact_uri("default", f"k{number}"))
        await client.subscribe_resource(fact_uri("default", "k0"))
        with pytest.raises(MCPError, match="at most"):
            await client.subscribe_resource(fact_uri("default", "k"))


def test_a_subscription_out_of_reach_is_refused():
    interest = Interest(Principal("p", namespaces=frozenset(("mine",))), lists=True)
    interest.add(fact_uri("mine", "k"))
    with pytest.raises(Forbidden):
        interest.add(fact_uri("theirs", "k"))


async def events_of(store, *writes):
    after = store.event_follow(None).after
    for write in writes:
        store.fact_set(CALLER, write)
    return store.event_follow(after).events


async def test_nothing_is_heard_of_namespaces_out_of_reach(store):
    interest = Interest(Principal("p", namespaces=frozenset(("mine",))), lists=True)
    theirs, mine = await events_of(
        store,
        FactWrite(namespace="theirs", key="k", value="v"),
        FactWrite(namespace="mine", key="k", value="v"),
    )
    assert list(interest.notices(News(theirs).change)) == []
    assert len(list(interest.notices(News(mine).change))) == 1


async def test_what_waits_for_a_client_that_does_not_read_stays_as_small_as_its_interest(store):
    interest = Interest(Principal("p"), lists=True)
    interest.add(fact_uri("default", "k"))
    notices = Notices(interest)
    writes = [FactWrite(key="k", value=str(number)) for number in range(50)]
    for event in await events_of(store, *writes):
        notices.hear(News(event))
    heard = [await notices.take(), await notices.take()]
    assert len(set(heard)) == 2
    notices.close()
    assert await notices.take() is None


class FailingStore:
    """A store whose trail cannot be asked while it fails; it counts who asks at the same time."""

    def __init__(self, store):
        self._store = store
        self._lock = threading.Lock()
        self._asking = 0
        self.most_asking = 0
        self.asked = 0
        self.fails = False

    def event_follow(self, after, *others, **more):
        if self.fails:
            self.asked += 1
            raise Unavailable("the store is down")
        with self._lock:
            self._asking += 1
            self.asked += 1
            self.most_asking = max(self.most_asking, self._asking)
        try:
            return self._store.event_follow(after, *others, **more)
        finally:
            with self._lock:
                self._asking -= 1


async def wait_for(condition):
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110  what is waited for is not the test's own
            await asyncio.sleep(0.01)


async def test_a_store_that_fails_for_a_while_is_followed_from_where_it_failed(store):
    failing = FailingStore(store)
    trail, keys = Trail(failing), []
    await trail.add(lambda news: keys.append(news.event.key))
    await set_fact(store, "before")
    await wait_for(lambda: keys == ["before"])
    failing.fails = True
    await set_fact(store, "first")  # it answers the question under way, and the next one fails
    asked = failing.asked
    await wait_for(lambda: failing.asked > asked)
    for number in range(AT_ONCE + 10):
        await set_fact(store, f"k{number}")
    failing.fails = False
    await wait_for(lambda: len(keys) == AT_ONCE + 12)
    assert keys == ["before", "first", *(f"k{number}" for number in range(AT_ONCE + 10))]


async def test_a_store_that_is_down_at_first_is_followed_once_it_is_there(store):
    failing = FailingStore(store)
    failing.fails = True
    trail, keys = Trail(failing), []
    await trail.add(lambda news: keys.append(news.event.key))
    failing.fails = False
    await wait_for(lambda: trail.position is not None)
    await set_fact(store, "k")
    await wait_for(lambda: keys == ["k"])


class NumberedStore:
    """A trail of numbers alone, which a backup may put back."""

    def __init__(self):
        self.newest = 100
        self.asked = []
        self.fails = False

    def event_follow(self, after, *_others, **_more):
        if self.fails:
            raise Unavailable("the store is being put back")
        self.asked.append(after)
        threading.Event().wait(0.001)
        return EventFeed(events=(), after=self.newest if after is None else max(after, self.newest))


class SlowStore(NumberedStore):
    def __init__(self):
        super().__init__()
        self.answers = threading.Event()

    def event_follow(self, after, *others, **more):
        assert self.answers.wait(SECONDS)
        return super().event_follow(after, *others, **more)


class Context:
    """A request of the one session on a WebSocket, as far as subscriptions look at it."""

    request = None
    session_id = None

    def __init__(self):
        self.exit_stack = AsyncExitStack()
        self.session = SimpleNamespace(_connection=self)


async def test_a_subscription_is_answered_once_what_is_written_from_then_on_is_heard_of():
    store, context = SlowStore(), Context()
    subscriptions = SessionSubscriptions(Trail(store))
    introduced = asyncio.create_task(subscriptions.introduce(context, None))
    await wait_for(lambda: subscriptions.counts["sessions"] == 1)
    wanted = SubscribeRequestParams(uri=fact_uri("default", "k"))
    subscribed = asyncio.create_task(subscriptions.subscribe(context, wanted))
    done, _ = await asyncio.wait([introduced, subscribed], timeout=0.1)
    assert not done
    store.answers.set()
    await asyncio.wait_for(asyncio.gather(introduced, subscribed), SECONDS)
    await context.exit_stack.aclose()


async def test_one_follower_asks_for_all_and_none_when_nobody_listens(store):
    counted = FailingStore(store)
    trail, heard = Trail(counted), []
    listeners = [lambda _, number=number: heard.append(number) for number in range(20)]
    assert counted.asked == 0
    for listener in listeners:
        await trail.add(listener)
    await set_fact(store, "k")
    await wait_for(lambda: len(heard) == 20)
    for listener in listeners:
        trail.discard(listener)
    await set_fact(store, "k")
    await wait_for(lambda: trail.position is None)
    assert counted.most_asking == 1
    assert len(heard) == 20


async def test_a_store_that_was_put_back_to_a_backup_is_followed_from_its_own_end():
    store = NumberedStore()
    trail = Trail(store)
    await trail.add(lambda _: None)
    store.fails = True
    await asyncio.sleep(0)
    await wait_for(lambda: trail._failing)
    store.newest, store.fails = 7, False
    await wait_for(lambda: trail.position == 7)
