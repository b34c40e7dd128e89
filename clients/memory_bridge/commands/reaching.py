"""The HTTP interface of the memory that was meant: a running server's, or of one of our own."""

from argparse import Namespace
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

from memory_bridge import memory, settings
from memory_bridge.exits import WrongUsageError
from memory_bridge.following import Follower
from memory_bridge.own_server import OwnServer
from memory_bridge.rest import Query, RestClient

_SECONDS = 30.0


@dataclass(frozen=True)
class Reached:
    """`check` raises when the server that was started has ended."""

    rest: RestClient
    check: Callable[[], None]

    def follower(
        self, query: Query, note: Callable[[str], None], after: str | None = None
    ) -> Follower:
        return Follower(self.rest, query, check=self.check, note=note, after=after)


@contextmanager
def reached(options: Namespace) -> Generator[Reached]:
    """Yields that of `--url`, else of `--db`, else of what the environment names."""
    environment = settings.read()
    url: str | None = getattr(options, "url", None)
    file: str | None = getattr(options, "db", None)
    if url and file:
        raise WrongUsageError("Give --url or --db, not both.")
    if (missing := memory.missing_database(options)) is not None:
        raise WrongUsageError(f"There is no database {missing}; `set` would create it.")
    url = url or (None if file else environment.url)
    if url is not None:
        token = memory.token_of(options, environment)
        yield Reached(_rest(memory.endpoint_of(url), token, options), lambda: None)
        return
    seconds: float = getattr(options, "timeout", _SECONDS)
    with OwnServer(file, environment.server_environment, seconds) as server:
        yield Reached(_rest(server.url, server.token, options), server.check)


def _rest(url: str, token: str | None, options: Namespace) -> RestClient:
    client_id: str | None = getattr(options, "client_id", None) or settings.read().client_id
    timeout: float = getattr(options, "timeout", _SECONDS)
    try:
        return RestClient(url, token=token, client_id=client_id, timeout=timeout)
    except ValueError as error:
        raise WrongUsageError(str(error)) from error
