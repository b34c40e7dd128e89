"""The audit trail by what is wanted of it: kinds, a client, a time, all namespaces."""

import pytest

from memory_store.clock import moment
from memory_store.contract import EventFilter, Invalid, TokenGrant
from store.holders import Hand


@pytest.fixture
def busy(alice, bob, clock, settle):
    """Something of most kinds, a second apart, by two who share a memory."""
    acts = (
        lambda: alice.set("a", "1"),
        lambda: bob.set("b", "1"),
        lambda: alice.get("a"),
        bob.keys,
        lambda: alice.search("1"),
        lambda: bob.delete("a"),
        lambda: alice.restore("a", 1),
    )
    for act in acts:
        act()
        settle()
        clock.advance(1)


def kinds(events):
    return [event.kind for event in events]


@pytest.mark.usefixtures("busy")
def test_only_the_kinds_that_are_asked_for_come(alice):
    assert kinds(alice.events(only=EventFilter(kinds=("set",)))) == ["set", "set"]
    assert kinds(alice.events(only=EventFilter(kinds=("restore", "delete")))) == [
        *["restore", "delete"]
    ]
    assert alice.events(only=EventFilter(kinds=("expire", "token"))) == []
    assert alice.events(only=EventFilter()) == alice.events()


@pytest.mark.usefixtures("busy")
@pytest.mark.parametrize("include_reads", [False, True])
def test_kinds_that_name_a_read_ask_for_it(alice, include_reads):
    def found(*wanted):
        return kinds(alice.events(only=EventFilter(kinds=wanted), include_reads=include_reads))

    assert found("get") == ["get"]
    assert found("search", "list") == ["search", "list"]
    assert found("set", "get") == ["get", "set", "set"]
    assert found("delete") == ["delete"]


@pytest.mark.usefixtures("busy")
def test_only_what_one_client_did_comes(alice):
    hers = EventFilter(source_client="alice")
    assert kinds(alice.events(only=hers)) == ["restore", "set"]
    assert kinds(alice.events(only=hers, include_reads=True)) == ["restore", "search", "get", "set"]
    assert kinds(alice.events("a", only=EventFilter(source_client="bob"))) == ["delete"]
    for nobody in ("", "Alice", "alice%", "token:alice"):
        assert alice.events(only=EventFilter(source_client=nobody)) == []


@pytest.mark.usefixtures("busy")
def test_only_what_was_within_a_time_comes(alice, clock):
    began = clock() - 7000

    def found(since=None, until=None):
        only = EventFilter(
            since=None if since is None else moment(began + since),
            until=None if until is None else moment(began + until),
        )
        return kinds(alice.events(only=only, include_reads=True))

    assert found(since=5000) == ["restore", "delete"]
    assert found(since=5001) == ["restore"]
    assert found(until=1000) == ["set"]
    assert found(until=1001) == ["set", "set"]
    assert found(since=2000, until=5000) == ["search", "list", "get"]
    assert found(since=2000, until=2000) == found(since=3000, until=1000) == []
    assert len(found(since=-(10**12), until=10**12)) == 7


@pytest.mark.usefixtures("busy")
def test_all_filters_hold_at_once(alice, clock):
    only = EventFilter(
        kinds=("set", "restore"),
        source_client="alice",
        since=moment(clock() - 7000),
        until=moment(clock() - 1000),
    )
    assert [(it.kind, it.key) for it in alice.events(only=only)] == [("set", "a")]
    assert alice.events("b", only=only) == []


def test_the_trail_of_all_namespaces_has_what_concerns_none(store, caller, alice, settle):
    Hand(store, caller, "home").set("h")
    alice.set("k")
    store.token_create(caller, TokenGrant(name="ci", scopes=("read",)))
    alice.get("k")
    settle()

    assert [(it.namespace, it.kind) for it in store.event_list(None).events] == [
        *[(None, "token"), ("default", "set"), ("home", "set")]
    ]
    assert kinds(store.event_list(None, include_reads=True).events)[0] == "get"
    assert kinds(store.event_list(None, "k").events) == ["set"]
    tokens = EventFilter(kinds=("token",))
    assert kinds(store.event_list(None, only=tokens).events) == ["token"]
    assert store.event_list("default", only=tokens).events == ()


@pytest.mark.parametrize("namespace", ["default", None])
def test_pages_hold_what_the_filter_lets_through(alice, bob, store, namespace):
    for number in range(10):
        alice.set(f"a{number}")
        bob.set(f"b{number}")
    only = EventFilter(source_client="alice", kinds=("set", "delete"))
    seen, cursor = [], None
    while True:
        page = store.event_list(namespace, limit=4, cursor=cursor, only=only)
        seen += [event.key for event in page.events]
        alice.set("new")
        if page.next_cursor is None:
            break
        cursor = page.next_cursor

    assert seen == [f"a{number}" for number in reversed(range(10))]


def test_a_cursor_is_good_for_its_own_filter_only(alice, store, clock):
    for number in range(4):
        alice.set(f"k{number}")
    only = EventFilter(kinds=("set",), since=moment(clock()))
    cursor = store.event_list("default", limit=2, only=only).next_cursor
    same = EventFilter.model_validate_json(only.model_dump_json())
    assert len(store.event_list("default", limit=2, only=same, cursor=cursor).events) == 2

    others = (EventFilter(), EventFilter(kinds=("set",)), EventFilter(since=moment(clock())))
    for other in others:
        with pytest.raises(Invalid) as caught:
            store.event_list("default", limit=2, only=other, cursor=cursor)
        assert caught.value.argument == "cursor"
    with pytest.raises(Invalid):
        store.event_list(None, limit=2, only=only, cursor=cursor)


@pytest.mark.parametrize("client", ["c" * 129, "a\0", "\ud800"])
def test_a_client_that_cannot_be_is_refused(store, client):
    with pytest.raises(Invalid) as caught:
        store.event_list("default", only=EventFilter(source_client=client))
    assert caught.value.argument == "source_client"
