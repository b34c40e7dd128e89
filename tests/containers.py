"""Redis and Postgres in containers, of the images that the stack is made from."""

import atexit
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path

import psycopg
import redis
from testcontainers.community.postgres import PostgresContainer
from testcontainers.community.redis import RedisContainer
from testcontainers.core.config import ConnectionMode, testcontainers_config
from testcontainers.core.container import DockerContainer

from compose_stack import COMPOSE
from postgres_server import OPTIONS, Emptied
from redis_server import SECONDS, free_port

# Where the ports are published, also for a run that is in a container itself.
testcontainers_config.connection_mode_override = ConnectionMode.docker_host
testcontainers_config.tc_host_override = "127.0.0.1"


class ContainedPostgres:
    """One server, whose databases are asked for by a user with a password."""

    def __init__(self) -> None:
        image = image_of("postgres", "compose.extended.yaml")
        self._container = PostgresContainer(
            image,
            username="postgres",
            password=secrets.token_hex(8),
            dbname="postgres",
            driver=None,
        ).with_command(["postgres", *(word for option in OPTIONS for word in ("-c", option))])
        publish(self._container, 5432, free_port())
        self._container.with_env("LANG", "C.UTF-8")
        self._numbers = count(1)

    def start(self) -> None:
        self._container.start()

    def new_database(self) -> str:
        """Returns the address of an empty database."""
        name = f"memory_{next(self._numbers)}"
        address = self._container.get_connection_url()
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return f"{address.rpartition('/')[0]}/{name}"

    def remove(self) -> None:
        self._container.stop()


@cache
def reference_databases() -> Emptied:
    """Those of the one server of a test run."""
    server = ContainedPostgres()
    atexit.register(server.remove)
    server.start()
    return Emptied(server)


class ContainedRedis:
    """Kept in memory only, on 127.0.0.1; it can be stopped and started again on its port."""

    def __init__(self, container: RedisContainer, port: int) -> None:
        self._container = container.get_wrapped_container()
        self._client = container.get_client()
        self.port = port
        self.url = f"redis://127.0.0.1:{port}/0"

    def start(self) -> None:
        self._container.start()
        deadline = time.monotonic() + SECONDS
        # The engine listens on the port before Redis does.
        while not self._answers():
            assert time.monotonic() < deadline, "Redis did not start"
            time.sleep(0.02)

    def _answers(self) -> bool:
        try:
            return bool(self._client.ping())
        except redis.ConnectionError:
            return False

    def stop(self) -> None:
        self._container.kill()
        self._container.wait(timeout=SECONDS)


@contextmanager
def redis_container(_folder: Path) -> Iterator[ContainedRedis]:
    port = free_port()
    container = RedisContainer(image_of("redis", "compose.yaml"))
    publish(container, 6379, port)
    container.with_command(["redis-server", "--save", "", "--protected-mode", "no"])
    with container:
        yield ContainedRedis(container, port)


def publish(container: DockerContainer, inside: int, port: int) -> None:
    """On this machine alone, which the library's own way of binding does not know."""
    container.ports[str(inside)] = ("127.0.0.1", port)


def image_of(service: str, file: str) -> str:
    """The image that the stack takes for a service of others."""
    text = (COMPOSE / file).read_text(encoding="utf-8")
    variable = f"{service.upper()}_IMAGE"
    pinned = re.search(rf"image: \$\{{{variable}:-(\S+)\}}", text)
    assert pinned, f"{file} has no image of {service}"
    return os.environ.get(variable) or pinned[1]
