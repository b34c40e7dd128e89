"""A store that cannot be reached, breaks off, or is none at all."""

import socket

import pytest

from memory_store.client import HttpStore
from memory_store.contract import (
    Caller,
    FactWrite,
    Internal,
    ModelIdentity,
    StoreError,
    TokenGrant,
    Unavailable,
)
from store.scripted import ScriptedStore, breaking_server
from store.serving import serve_in_thread

CALLER = Caller(principal="p", source_client="c")
PLAIN = FactWrite(key="k", value="v")
KEYED = FactWrite(key="k", value="v", idempotency_key="once")

REPEATED = {
    "fact_get": (CALLER, "n", "k"),
    "fact_get_many": (CALLER, "n", ["k"]),
    "fact_list": (CALLER, "n"),
    "event_list": ("n",),
    "event_follow": (1,),
    "namespace_list": (),
    "tag_list": ("n",),
    "token_list": (),
    "token_verify": ("digest",),
    "token_revoke": (CALLER, "name"),
    "stats": (),
    "vector_put": ("owner", "model", []),
    "model_use": (ModelIdentity(name="m", digest="d", dimension=384),),
    "fact_set": (CALLER, KEYED),
    "fact_set_many": (CALLER, [KEYED, KEYED]),
    "fact_delete": (CALLER, "n", "k", None, "once"),
}
ONCE = {
    "fact_set": (CALLER, PLAIN),
    "fact_set_many": (CALLER, [KEYED, PLAIN]),
    "fact_delete": (CALLER, "n", "k"),
    "fact_restore": (CALLER, "n", "k", 1),
    "change_take": ("owner", "model"),
    "change_fail": ("owner", 1, "why"),
    "lock_hold": (0.1,),
    "namespace_rename": (CALLER, "n", "m"),
    "namespace_delete": (CALLER, "n", 1),
    "token_create": (CALLER, TokenGrant(name="name", scopes=("read",))),
    "token_rotate": (CALLER, "name"),
}
HALF_AN_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nnul"
NULL = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nnull"


@pytest.fixture
def connect():
    stores = []

    def connect(url, secret="s", **options):
        stores.append(HttpStore(url, secret, **options))
        return stores[-1]

    yield connect
    for store in stores:
        store.close()


def break_off(connection, _before):
    connection.sendall(HALF_AN_ANSWER)


@pytest.mark.parametrize("name", REPEATED)
def test_what_is_safe_to_repeat_is_asked_twice_when_the_answer_breaks_off(name, connect):
    with breaking_server(break_off) as (url, requests):
        with pytest.raises(Unavailable, match="whether a write landed is unknown"):
            getattr(connect(url), name)(*REPEATED[name])
        assert len(requests) == 2
        assert requests[0] == requests[1]


@pytest.mark.parametrize("name", ONCE)
def test_what_may_have_been_done_is_asked_once_when_the_answer_breaks_off(name, connect):
    with breaking_server(break_off) as (url, requests):
        with pytest.raises(Unavailable, match="whether a write landed is unknown"):
            getattr(connect(url), name)(*ONCE[name])
        assert len(requests) == 1


def test_a_read_outlives_one_broken_connection(connect):
    def break_first(connection, before):
        if before:
            connection.sendall(NULL)

    with breaking_server(break_first) as (url, requests):
        assert connect(url).fact_get(CALLER, "n", "k") is None
        assert len(requests) == 2


def test_a_late_answer_is_not_waited_for_twice(connect):
    def stay_silent(connection, _before):
        connection.recv(1)  # until the client hangs up

    with breaking_server(stay_silent) as (url, requests):
        with pytest.raises(Unavailable, match="did not answer in time"):
            connect(url, timeout=0.2).fact_get(CALLER, "n", "k")
        assert len(requests) == 1


def answer_late(connection, _before):
    connection.settimeout(0.5)
    with pytest.raises(TimeoutError):
        connection.recv(1)
    connection.sendall(NULL.replace(b"null", b"0.75"))


def test_holding_the_lock_may_take_longer_than_other_answers(connect):
    with breaking_server(answer_late) as (url, _):
        assert connect(url, timeout=0.2).lock_hold(5) == 0.75


def test_following_may_take_longer_than_other_answers(connect):
    with (
        breaking_server(answer_late) as (url, requests),
        pytest.raises(Internal, match="cannot be read"),
    ):
        connect(url, timeout=0.2).event_follow(1, wait_seconds=5)
    assert len(requests) == 1


def test_nobody_listening_is_unavailable_and_worth_trying_again(connect):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with pytest.raises(Unavailable, match="nothing was sent") as caught:
        connect(url).fact_set(CALLER, PLAIN)
    assert caught.value.retryable
    assert "127.0.0.1" not in caught.value.message


def test_a_store_that_was_restarted_is_found_again(connect):
    url, secret, stop = serve_in_thread(ScriptedStore())
    store = connect(url, secret)
    store.fact_get(CALLER, "n", "k")
    stop()
    _, _, stop = serve_in_thread(ScriptedStore(), port=int(url.rpartition(":")[2]))
    try:
        assert store.fact_get(CALLER, "n", "k") is None
    finally:
        stop()


def test_a_closed_client_is_unavailable(connect):
    store = connect("http://127.0.0.1:1")
    store.close()
    with pytest.raises(Unavailable, match="closed"):
        store.stats()


@pytest.mark.parametrize("secret", ["wrong", "a secret of the test", "ünïcode"])
def test_a_wrong_secret_is_said_at_the_first_call(secret, connect):
    scripted = ScriptedStore()
    url, _, stop = serve_in_thread(scripted)
    try:
        with pytest.raises(StoreError, match="secret") as caught:
            connect(url, secret).stats()
        assert not caught.value.retryable
        assert scripted.calls == []
    finally:
        stop()


@pytest.mark.parametrize(
    ("status", "kind"), [("502 Bad Gateway", Unavailable), ("404 Not Found", Internal)]
)
def test_what_is_no_store_is_told_apart(status, kind, connect):
    answer = f"HTTP/1.1 {status}\r\nContent-Length: 6\r\nConnection: close\r\n\r\n<html>"

    def be_no_store(connection, _before):
        connection.sendall(answer.encode())

    with breaking_server(be_no_store) as (url, requests):
        with pytest.raises(kind, match=status[:3]):
            connect(url).stats()
        assert len(requests) == 1


def test_an_answer_of_another_release_is_said(connect):
    def answer_otherwise(connection, _before):
        connection.sendall(NULL)

    with breaking_server(answer_otherwise) as (url, _), pytest.raises(Internal, match="release"):
        connect(url).stats()


@pytest.mark.parametrize("url", ["", "store:8100", "ftp://store", "http://", "/run/store.sock"])
def test_an_address_that_is_none_is_refused_at_once(url):
    with pytest.raises(ValueError, match="http://"):
        HttpStore(url, "s")


@pytest.mark.parametrize("secret", ["", " ", "two\nlines", "tail\n"])
def test_a_secret_that_no_header_carries_is_refused_at_once(secret):
    with pytest.raises(ValueError, match="printable text"):
        HttpStore("http://127.0.0.1:1", secret)
