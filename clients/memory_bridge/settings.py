"""What the environment says to the command line; read here and nowhere else."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from memory_bridge.exits import WrongUsageError


@dataclass(frozen=True)
class Settings:
    """`server_environment` is what a server that the command starts is given."""

    url: str | None = None
    token: str | None = None
    client_id: str | None = None
    server_environment: Mapping[str, str] = field(default_factory=dict[str, str])


def read(environ: Mapping[str, str] = os.environ) -> Settings:
    return Settings(
        url=environ.get("MCP_URL") or None,
        token=_token(environ),
        client_id=environ.get("MCP_CLIENT_ID") or None,
        # Whatever the environment says of serving, the command talks to its server over stdio.
        server_environment={**environ, "MCP_TRANSPORT": "stdio"},
    )


def token_in(file: str) -> str:
    """Returns the token that a file holds. Raises `WrongUsageError` when it holds none."""
    try:
        token = Path(file).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUsageError(f"The token file {file} cannot be read: {error}.") from error
    if not token:
        raise WrongUsageError(f"The token file {file} is empty.")
    return token


def _token(environ: Mapping[str, str]) -> str | None:
    if token := environ.get("MCP_AUTH_TOKEN"):
        return token
    file = environ.get("MCP_AUTH_TOKEN_FILE")
    return token_in(file) if file else None
