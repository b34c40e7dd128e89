"""What the environment says to the command line; read here and nowhere else."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from memory_bridge.arguments import is_text
from memory_bridge.exits import WrongUsageError


@dataclass(frozen=True)
class Settings:
    """`server_environment` is what a server that the command starts is given."""

    url: str | None = None
    token: str | None = None
    client_id: str | None = None
    server_environment: Mapping[str, str] = field(default_factory=dict[str, str])


def read(environ: Mapping[str, str] = os.environ) -> Settings:
    """Returns the settings. Raises `WrongUsageError` for a value that cannot be meant."""
    return Settings(
        url=_text(environ, "MCP_URL"),
        token=_token(environ),
        client_id=_text(environ, "MCP_CLIENT_ID"),
        # Whatever the environment says of serving, the command talks to its server over stdio.
        server_environment={**environ, "MCP_TRANSPORT": "stdio"},
    )


def debug(environ: Mapping[str, str] = os.environ) -> bool:
    """Returns whether an error is to be told with all that led to it."""
    return bool(environ.get("MCP_DEBUG"))


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
    if token := _text(environ, "MCP_AUTH_TOKEN"):
        return token
    file = environ.get("MCP_AUTH_TOKEN_FILE")
    return token_in(file) if file else None


def _text(environ: Mapping[str, str], name: str) -> str | None:
    text = environ.get(name)
    if text and not is_text(text):
        raise WrongUsageError(f"{name} is not UTF-8; convert it first.")
    return text or None
