"""A served memory, and another process on it where tokens are made and revoked."""

from contextlib import closing

import pytest

from gateway.identity.asking import client_of
from gateway_serving import http_server
from memory_store.opening import open_store
from memory_store.settings import StoreSettings
from store.office import Office


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    return tmp_path_factory.mktemp("identity") / "memory.db"


@pytest.fixture(scope="module")
def served(database):
    with http_server(database) as server:
        yield server


@pytest.fixture(scope="module")
def office(served, database):  # noqa: ARG001  the server makes the database
    """Another process on the same memory, where tokens are made and revoked."""
    with closing(open_store(StoreSettings(memory_db=database))) as store:
        yield Office(store)


@pytest.fixture
def web(served):
    with client_of(served) as web:
        yield web


@pytest.fixture
def token(office, request):
    return office.create(request.node.name[:128], ("write",))
