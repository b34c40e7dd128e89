"""Two ends of a move, in both directions; at one of them a memory with all that there can be."""

import shutil
from contextlib import closing
from dataclasses import dataclass

import pytest

from memory_store.operations.migrate import migrate
from postgres_server import new_database
from store.holders import Clock
from store.moves import copy_database, file_end, fill, server_end
from store.whole import silent


@dataclass(frozen=True)
class Memory:
    """A memory that was filled once, to be copied for each test."""

    origin: str
    now: int
    digests: dict[str, str]


@pytest.fixture(scope="module")
def filled_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("filled") / "memory.db"
    clock = Clock()
    with closing(file_end(path).store(clock=clock)) as store:
        digests = fill(store, clock)
    return Memory(str(path), clock(), digests)


@pytest.fixture(scope="module")
def filled_server():
    clock = Clock()
    with new_database() as url:
        with closing(server_end(url).store(clock=clock)) as store:
            digests = fill(store, clock)
        yield Memory(url, clock(), digests)


@pytest.fixture
def url():
    with new_database() as url:
        yield url


@pytest.fixture
def file(tmp_path):
    return tmp_path / "memory.db"


@pytest.fixture(params=["sqlite to postgres", "postgres to sqlite"])
def direction(request):
    return request.param


@pytest.fixture
def ends(direction, url, file):
    both = (file_end(file), server_end(url))
    return both if direction.startswith("sqlite") else both[::-1]


@pytest.fixture
def memory(direction, request, clock):
    kind = "file" if direction.startswith("sqlite") else "server"
    memory = request.getfixturevalue(f"filled_{kind}")
    clock.now = memory.now
    return memory


@pytest.fixture
def origin(ends, memory, url, file):
    """The end with the memory, which nobody has open."""
    if memory.origin.startswith("postgresql:"):
        copy_database(memory.origin, url)
    else:
        shutil.copy(memory.origin, file)
    return ends[0]


@pytest.fixture
def destination(ends):
    return ends[1]


@pytest.fixture
def moved(origin, destination):
    return lambda: migrate(origin.place, destination.place, silent())
