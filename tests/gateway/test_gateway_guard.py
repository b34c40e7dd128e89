"""What a principal may ask of the store: scopes and namespaces, on every method there is."""

import inspect
from datetime import UTC, datetime
from functools import partial

import pytest

from memory_gateway.guard import GuardedStore
from memory_gateway.principals import INSTALLATION, principal_of_token
from memory_store.contract import (
    Caller,
    FactWrite,
    Forbidden,
    SearchQuery,
    Store,
    Token,
    TokenGrant,
)

CALLER = Caller(principal="token:ci", source_client="ci", self_reported=False)
MADE = datetime(2026, 1, 31, tzinfo=UTC)
INTERNAL = {"change_take", "change_fail", "change_release", "vector_put", "model_use"}
CALLS = {
    "fact_set": lambda ns: (CALLER, FactWrite(namespace=ns, key="k", value="v")),
    "fact_set_many": lambda ns: (
        CALLER,
        [FactWrite(key="k", value="v"), FactWrite(namespace=ns, key="k", value="v")],
    ),
    "fact_get": lambda ns: (CALLER, ns, "k"),
    "fact_get_many": lambda ns: (CALLER, ns, ["k"]),
    "fact_list": lambda ns: (CALLER, ns),
    "fact_delete": lambda ns: (CALLER, ns, "k"),
    "fact_restore": lambda ns: (CALLER, ns, "k", 1),
    "fact_search": lambda ns: (CALLER, SearchQuery(namespace=ns, text="v")),
    "event_list": lambda ns: (ns,),
    "event_follow": lambda ns: (None, ns),
    "tag_list": lambda ns: (ns,),
    "namespace_rename": lambda ns: (CALLER, ns, "other"),
    "namespace_delete": lambda ns: (CALLER, ns, 0),
    "stats": lambda ns: (ns,),
}
NEEDS = {
    "write": ("fact_set", "fact_set_many", "fact_delete", "fact_restore", "lock_hold"),
    "admin": (
        "namespace_rename",
        "namespace_delete",
        "token_create",
        "token_rotate",
        "token_revoke",
        "token_list",
    ),
}
EVERYWHERE = {
    "token_create": (CALLER, TokenGrant(name="x", scopes=("read",))),
    "token_rotate": (CALLER, "x"),
    "token_revoke": (CALLER, "x"),
    "token_list": (),
    "lock_hold": (0.0,),
    "event_list": (None,),
    "event_follow": (None, None),
    "stats": (None,),
}


@pytest.fixture
def guarded(memory):
    def guard(*scopes, namespaces=None):
        grant = {"name": "ci", "scopes": scopes, "namespaces": namespaces}
        token = Token(**grant, created_at=MADE, created_by="tests")
        return GuardedStore(memory.store, principal_of_token(token))

    return guard


def methods(owner):
    return {name: m for name, m in inspect.getmembers(owner, inspect.isfunction) if name[0] != "_"}


def test_every_method_of_a_store_is_guarded_or_kept_from_clients():
    kept = INTERNAL | {"token_verify"}
    assert methods(GuardedStore).keys() == methods(Store).keys() - kept
    for name, method in methods(GuardedStore).items():
        assert inspect.signature(method) == inspect.signature(getattr(Store, name))


def test_every_guarded_method_is_tried_below():
    assert CALLS.keys() | EVERYWHERE.keys() | {"namespace_list"} == methods(GuardedStore).keys()


@pytest.mark.parametrize("name", CALLS)
def test_a_namespace_out_of_reach_is_refused(guarded, name):
    store = guarded("admin", namespaces=("default",))
    with pytest.raises(Forbidden, match="reaches: default"):
        getattr(store, name)(*CALLS[name]("secret"))


@pytest.mark.parametrize("name", EVERYWHERE)
def test_what_concerns_all_namespaces_is_refused_to_who_reaches_some(guarded, name):
    store = guarded("admin", namespaces=("default",))
    with pytest.raises(Forbidden, match="all namespaces"):
        getattr(store, name)(*EVERYWHERE[name])


@pytest.mark.parametrize(
    ("held", "name"),
    [("read", name) for names in NEEDS.values() for name in names]
    + [("write", name) for name in NEEDS["admin"]],
)
def test_a_scope_that_is_not_held_is_refused(guarded, held, name):
    arguments = EVERYWHERE[name] if name in EVERYWHERE else CALLS[name]("default")
    with pytest.raises(Forbidden, match="needs the scope"):
        getattr(guarded(held), name)(*arguments)


def test_who_may_write_may_read_and_who_administrates_may_both(guarded):
    for scope in ("write", "admin"):
        store = guarded(scope)
        store.fact_set(CALLER, FactWrite(key="k", value="v"))
        assert store.fact_get(CALLER, "default", "k").value == "v"
        assert [hit.fact.key for hit in store.fact_search(CALLER, SearchQuery(text="v")).hits]


def test_only_namespaces_within_reach_are_listed(memory, guarded):
    for namespace in ("a", "b"):
        memory.store.fact_set(CALLER, FactWrite(namespace=namespace, key="k", value="v"))
    assert [info.name for info in guarded("read", namespaces=("b", "c")).namespace_list()] == ["b"]
    assert len(GuardedStore(memory.store, INSTALLATION).namespace_list()) == 2


def test_a_rename_into_a_namespace_out_of_reach_is_refused(guarded):
    store = guarded("admin", namespaces=("mine",))
    with pytest.raises(Forbidden, match="does not reach"):
        store.namespace_rename(CALLER, "mine", "yours")


def test_a_token_cannot_pass_for_the_installation():
    made = partial(Token, scopes=("read",), created_at=MADE, created_by="tests")
    assert principal_of_token(made(name="installation")).name != INSTALLATION.name
