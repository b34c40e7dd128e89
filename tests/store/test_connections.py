"""The connections on which the store is asked."""

import socket
import threading
from contextlib import closing, contextmanager, suppress

import pytest

from clients.certificates import self_signed, tls_of
from memory_store.connections import BrokenOff, CannotConnect, Connections, Response
from waiting import wait_until

SECONDS = 20.0
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@contextmanager
def server(serve):
    """`serve` is given each connection, a thread each. Yields the address, and the connections."""
    accepted = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept():
            while True:
                try:
                    accepted.append(listener.accept()[0])
                except OSError:
                    return
                threading.Thread(target=serve, args=(accepted[-1],), daemon=True).start()

        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", accepted
        listener.shutdown(socket.SHUT_RDWR)
        accepting.join(SECONDS)


@contextmanager
def connections(url, *, most_kept=8, idle_seconds=60.0):
    opened = Connections(url, b"Bearer s", most_kept=most_kept, idle_seconds=idle_seconds)
    with closing(opened):
        yield opened


def answer_all(connection):
    while connection.recv(65_536):
        connection.sendall(OK)


def test_one_connection_serves_request_after_request():
    with server(answer_all) as (url, accepted), connections(url) as store:
        for _ in range(5):
            assert store.post("/stats", b"{}", SECONDS) == Response(200, b"ok")
        assert len(accepted) == 1


def test_a_request_is_whole_and_goes_where_the_address_says():
    heard = []

    def listen(connection):
        heard.append(connection.recv(65_536))
        connection.sendall(OK)

    with server(listen) as (url, _), connections(f"{url}/memory/") as store:
        store.post("/stats", b"{}", SECONDS)
    head, _, body = heard[0].partition(b"\r\n\r\n")
    first, *fields = head.split(b"\r\n")
    assert (first, body) == (b"POST /memory/stats HTTP/1.1", b"{}")
    assert {f"Host: {url.removeprefix('http://')}".encode(), b"Content-Length: 2"} <= {*fields}


def test_a_connection_that_was_closed_between_two_requests_is_not_asked():
    def answer_once(connection):
        connection.recv(65_536)
        connection.sendall(OK)
        connection.shutdown(socket.SHUT_RDWR)

    with server(answer_once) as (url, accepted), connections(url) as store:
        store.post("/fact_set", b"{}", SECONDS)
        wait_until(lambda: store._idle[-1].is_over)
        assert store.post("/fact_set", b"{}", SECONDS).status == 200
        assert len(accepted) == 2


def test_a_connection_that_was_idle_for_too_long_is_not_asked():
    with server(answer_all) as (url, accepted), connections(url, idle_seconds=0.0) as store:
        for _ in range(2):
            assert store.post("/stats", b"{}", SECONDS).status == 200
        assert len(accepted) == 2


def test_no_more_connections_are_kept_than_were_asked_for():
    together = threading.Barrier(4, timeout=SECONDS)

    def answer_together(connection):
        connection.recv(65_536)
        together.wait()
        connection.sendall(OK)

    with server(answer_together) as (url, accepted), connections(url, most_kept=2) as store:
        asking = [
            threading.Thread(target=store.post, args=("/stats", b"{}", SECONDS)) for _ in range(4)
        ]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join(SECONDS)
        assert (len(accepted), len(store._idle)) == (4, 2)


def test_an_answer_may_come_in_pieces():
    pieces = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n"

    def answer_byte_by_byte(connection):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.recv(65_536)
        for at in range(len(pieces)):
            connection.sendall(pieces[at : at + 1])

    with server(answer_byte_by_byte) as (url, _), connections(url) as store:
        assert store.post("/stats", b"{}", SECONDS) == Response(200, b"ok")


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\nContent-Le", b"SSH-2.0-none\r\n\r\n"])
def test_what_is_no_answer_breaks_off(said):
    def say(connection):
        connection.recv(65_536)
        connection.sendall(said)
        connection.shutdown(socket.SHUT_RDWR)

    with server(say) as (url, _), connections(url) as store, pytest.raises(BrokenOff):
        store.post("/stats", b"{}", SECONDS)


def test_a_server_with_a_trusted_certificate_is_asked_over_tls(tmp_path, monkeypatch):
    certificate = self_signed(tmp_path)

    def answer(connection):
        with tls_of(certificate).wrap_socket(connection, server_side=True) as encrypted:
            answer_all(encrypted)

    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with server(answer) as (url, accepted), connections(url.replace("http", "https")) as store:
        for _ in range(2):
            assert store.post("/stats", b"{}", SECONDS).body == b"ok"
        assert len(accepted) == 1


def test_a_certificate_that_nobody_vouches_for_is_not_connected_to(tmp_path):
    certificate = self_signed(tmp_path)

    def answer(connection):
        with suppress(OSError):  # the client hangs up in the middle of it
            tls_of(certificate).wrap_socket(connection, server_side=True)

    with (
        server(answer) as (url, _),
        connections(url.replace("http", "https")) as store,
        pytest.raises(CannotConnect, match="certificate"),
    ):
        store.post("/stats", b"{}", SECONDS)
