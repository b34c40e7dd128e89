"""What the environment says to the command line; read here and nowhere else."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from memory_bridge.arguments import is_text
from memory_bridge.exits import WrongUsageError
from memory_bridge.variables import KNOWN, PREFIX

# As near as the server itself wants them to be.
_NEAR = 0.85


@dataclass(frozen=True)
class Settings:
    """`server_environment` is what a server that the command starts is given.

    `state_folder` is where files of running programs lie; None if there is no home for it.
    """

    url: str | None = None
    token: str | None = None
    client_id: str | None = None
    server_environment: Mapping[str, str] = field(default_factory=dict[str, str])
    state_folder: Path | None = None


@dataclass(frozen=True)
class Address:
    """Where a running server is; the file with its token is not read yet."""

    url: str | None
    token: str | None
    token_file: str | None


@dataclass(frozen=True)
class Background:
    """What a server in the background is started with. Its token is always in a file."""

    address: tuple[str, int]
    token_file: Path
    environment: Mapping[str, str]


def background(folder: Path, environ: Mapping[str, str] = os.environ) -> Background:
    """Returns the settings of a server whose files lie in `folder`.

    Raises `WrongUsageError` for a port that is none.
    """
    port = environ.get("MCP_HTTP_PORT") or "8000"
    if not port.isdigit():
        raise WrongUsageError("MCP_HTTP_PORT must be a port from 1 to 65535.")
    token_file = Path(environ.get("MCP_AUTH_TOKEN_FILE") or folder / "token").absolute()
    served = {"MCP_TRANSPORT": "http", "MCP_AUTH_TOKEN_FILE": str(token_file)}
    kept = {name: value for name, value in environ.items() if name != "MCP_AUTH_TOKEN"}
    host = environ.get("MCP_HTTP_HOST") or "127.0.0.1"
    return Background((host, int(port)), token_file, {**kept, **served})


def read(environ: Mapping[str, str] = os.environ) -> Settings:
    """Returns the settings. Raises `WrongUsageError` for a value that cannot be meant."""
    return Settings(
        url=_text(environ, "MCP_URL"),
        token=_token(environ),
        client_id=_text(environ, "MCP_CLIENT_ID"),
        # Whatever the environment says of serving, the command talks to its server over stdio.
        server_environment={**environ, "MCP_TRANSPORT": "stdio"},
        state_folder=state_folder(environ),
    )


def address(environ: Mapping[str, str] = os.environ) -> Address:
    """Returns what the environment says of the server. Raises `WrongUsageError`."""
    names = ("MCP_URL", "MCP_AUTH_TOKEN", "MCP_AUTH_TOKEN_FILE")
    return Address(*(_text(environ, name) for name in names))


def debug(environ: Mapping[str, str] = os.environ) -> bool:
    """Returns whether an error is to be told with all that led to it."""
    return bool(environ.get("MCP_DEBUG"))


def misspelled(environ: Mapping[str, str] = os.environ) -> Mapping[str, str]:
    """Returns unknown `MCP_…` variables that are close to a known one, each with that one."""
    unknown = sorted(name for name in environ if name.startswith(PREFIX) and name not in KNOWN)
    if not unknown:
        return {}
    from difflib import get_close_matches  # noqa: PLC0415  # hardly ever needed

    near = {name: get_close_matches(name, KNOWN, n=1, cutoff=_NEAR) for name in unknown}
    return {name: matches[0] for name, matches in near.items() if matches}


def can_redraw(environ: Mapping[str, str] = os.environ) -> bool:
    """Returns whether a terminal here takes the sequence that clears it."""
    if sys.platform == "win32":
        return "WT_SESSION" in environ or "TERM" in environ
    return environ.get("TERM", "dumb") != "dumb"


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


def state_folder(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Returns the folder that the server keeps the memory in when it is told no other place; None
    if there is no home for it."""
    try:
        if folder := _text(environ, "MCP_MEMORY_STORE_DIR"):
            return Path(folder).expanduser().absolute()
        return _data_folder(environ) / "memory-bridge"
    except RuntimeError:
        return None


def _data_folder(environ: Mapping[str, str]) -> Path:
    """Raises RuntimeError when the user has no home."""
    if sys.platform == "win32":
        return Path(environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    return Path(environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")


def _text(environ: Mapping[str, str], name: str) -> str | None:
    text = environ.get(name)
    if text and not is_text(text):
        raise WrongUsageError(f"{name} is not UTF-8; convert it first.")
    return text or None
