"""The memory's tools as a client calls them, and the ways to reach a memory."""

import sys
from argparse import Namespace
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from memory_bridge.client import Client
from memory_bridge.errors import ProtocolError
from memory_bridge.exits import WrongUsageError
from memory_bridge.settings import Settings, token_in

Answer = dict[str, Any]

# A server that is started for one command has its model to load first.
_LONGEST_MODEL_WAIT_MS = 15_000


class Memory:
    """One namespace of a memory, for one caller; None leaves either to the server."""

    def __init__(self, client: Client, namespace: str | None, client_id: str | None) -> None:
        self._client = client
        self._caller = {"namespace": namespace, "client_id": client_id}

    def call(self, tool: str, arguments: Answer) -> Answer:
        """Returns the structured answer. Arguments that are None are left to the server."""
        given = {**arguments, **self._caller}
        result = self._client.call_tool(
            tool, {name: value for name, value in given.items() if value is not None}
        )
        answer = result.get("structuredContent")
        if not isinstance(answer, dict):
            raise ProtocolError(f"{tool} answered without structured content.")
        return answer  # pyright: ignore[reportUnknownVariableType]  # JSON is Any

    def call_all(self, tool: str, arguments: Answer, field: str) -> Answer:
        """Returns the answer with the items of every page that follows it."""
        answer = self.call(tool, arguments)
        items = _items(answer, field)
        passed: set[str] = set()
        while cursor := answer.get("next_cursor"):
            if not isinstance(cursor, str) or cursor in passed:
                raise ProtocolError(f"{tool} gave a cursor that leads nowhere.")
            passed.add(cursor)
            answer = self.call(tool, {**arguments, "cursor": cursor})
            items.extend(_items(answer, field))
        return {**answer, field: items}


def _items(answer: Answer, field: str) -> list[Answer]:
    items = answer.get(field)
    if not isinstance(items, list):
        raise ProtocolError(f"A page of {field} came without any list of them.")
    return list(items)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  # JSON is Any


def missing_database(options: Namespace) -> str | None:
    """Returns the file that `--db` names if there is none."""
    file: str | None = getattr(options, "db", None)
    if file is None:
        return None
    try:
        return None if Path(file).expanduser().exists() else file
    except RuntimeError as error:
        raise WrongUsageError(f"There is no home folder for {file}.") from error
    except OSError:
        return None  # the server will say what is wrong with it


@contextmanager
def opened(options: Namespace, settings: Settings) -> Generator[Memory]:
    """Yields the memory that was meant, which must be there."""
    if (missing := missing_database(options)) is not None:
        raise WrongUsageError(f"There is no database {missing}; `set` would create it.")
    with client_for(options, settings) as client:
        yield Memory(client, *caller_of(options, settings))


def client_for(options: Namespace, settings: Settings) -> Client:
    """Returns a client of `--url`, else of `--db`, else of what the environment names."""
    url: str | None = getattr(options, "url", None)
    file: str | None = getattr(options, "db", None)
    if url and file:
        raise WrongUsageError("Give --url or --db, not both.")
    url = url or (None if file else settings.url)
    timeout: float = getattr(options, "timeout", 30.0)
    if url is None:
        return _started(file, settings, timeout)
    try:
        return Client.http(endpoint_of(url), token=token_of(options, settings), timeout=timeout)
    except ValueError as error:
        raise WrongUsageError(str(error)) from error


def caller_of(options: Namespace, settings: Settings) -> tuple[str | None, str | None]:
    client_id = getattr(options, "client_id", None) or settings.client_id
    return getattr(options, "namespace", None), client_id


def _started(file: str | None, settings: Settings, timeout: float) -> Client:
    # -P: a module of the folder that the command runs in must not take the place of a real one.
    serve = [sys.executable, "-P", "-m", "memory_bridge", "serve"]
    command = serve if file is None else [*serve, file]
    wait = min(_LONGEST_MODEL_WAIT_MS, max(1, int(timeout * 1000 / 2)))
    environment = {"MCP_QUERY_DEADLINE_MS": f"{wait}", **settings.server_environment}
    return Client.stdio(command, environment=environment, timeout=timeout)


def token_of(options: Namespace, settings: Settings) -> str | None:
    """Returns the token as it is now: one in a file is read anew each time."""
    token: str | None = getattr(options, "token", None)
    file: str | None = getattr(options, "token_file", None)
    if token and file:
        raise WrongUsageError("Give --token or --token-file, not both.")
    return token or (token_in(file) if file else settings.token)


def endpoint_of(url: str) -> str:
    """Completes the address of a server to that of its MCP endpoint."""
    scheme, mark, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return url if not mark or path else f"{scheme}{mark}{host}{slash or '/'}mcp"
