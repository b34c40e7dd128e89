"""Who makes tokens: the running server, or else the server's package on the store itself."""

from argparse import Namespace
from typing import Any, Protocol

from memory_bridge import memory, settings
from memory_bridge.commands import operations
from memory_bridge.exits import WrongUsageError
from memory_bridge.rest import RestClient
from memory_bridge.settings import Settings

Answer = dict[str, Any]

_USUAL_URL = "http://127.0.0.1:8000/mcp"
_OF_A_SERVER = ("token", "token_file", "timeout")


class Office(Protocol):
    """Answers in the words of the HTTP interface. `url` is where clients go with a token."""

    url: str

    def create(self, **grant: Any) -> Answer: ...

    def rotate(self, name: str, overlap_seconds: float) -> Answer: ...

    def revoke(self, name: str) -> Answer: ...

    def every(self) -> Answer: ...


def office_for(options: Namespace) -> Office:
    """Returns that of `--url`, else of `--db`, else of what the environment names."""
    environment = settings.read()
    url: str | None = getattr(options, "url", None)
    file: str | None = getattr(options, "db", None)
    if url and file:
        raise WrongUsageError("Give --url or --db, not both.")
    url = url or (None if file else environment.url)
    if url is None:
        _refuse_what_is_a_servers(options)
        _, client_id = memory.caller_of(options, environment)
        return _StoreOffice(file, client_id)
    try:
        return _ServerOffice(memory.endpoint_of(url), options, environment)
    except ValueError as error:
        raise WrongUsageError(str(error)) from error


def _refuse_what_is_a_servers(options: Namespace) -> None:
    for name in _OF_A_SERVER:
        if getattr(options, name, None) is not None:
            raise WrongUsageError(
                f"Without --url or MCP_URL this works on the store itself, where"
                f" --{name.replace('_', '-')} has no place."
            )


class _ServerOffice:
    def __init__(self, url: str, options: Namespace, environment: Settings) -> None:
        self.url = url
        _, client_id = memory.caller_of(options, environment)
        self._rest = RestClient(
            url,
            token=memory.token_of(options, environment),
            client_id=client_id,
            timeout=getattr(options, "timeout", 30.0),
        )

    def create(self, **grant: Any) -> Answer:
        return self._rest.call("POST", "tokens", body=grant)

    def rotate(self, name: str, overlap_seconds: float) -> Answer:
        body = {"overlap_seconds": overlap_seconds}
        return self._rest.call("POST", "tokens", name, "rotate", body=body)

    def revoke(self, name: str) -> Answer:
        return self._rest.call("DELETE", "tokens", name)

    def every(self) -> Answer:
        return self._rest.call("GET", "tokens")


class _StoreOffice:
    url = _USUAL_URL

    def __init__(self, file: str | None, client_id: str | None) -> None:
        self._common = {"db": file, "client_id": client_id}

    def create(self, **grant: Any) -> Answer:
        return self._do("create", **grant)

    def rotate(self, name: str, overlap_seconds: float) -> Answer:
        return self._do("rotate", name=name, overlap_seconds=overlap_seconds)

    def revoke(self, name: str) -> Answer:
        return self._do("revoke", name=name)["token"]

    def every(self) -> Answer:
        return self._do("list")

    def _do(self, action: str, **arguments: Any) -> Answer:
        return operations.outcome_of(f"token {action}", {**self._common, **arguments}).answer
