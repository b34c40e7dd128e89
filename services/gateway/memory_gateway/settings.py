"""The gateway's settings, read once from the environment."""

import os
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from memory_gateway.hosts import read_host

PREFIX = "MCP_"
ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?")
SHORTEST_TOKEN = 16
HOW_TO_MAKE_ONE = (
    'To make one that you alone can read: (umask 077; python3 -c "import secrets;'
    ' print(secrets.token_urlsafe(32))" > token.txt), and set MCP_AUTH_TOKEN_FILE=token.txt.'
)
NO_TOKEN = (
    "HTTP is not served without a token: set MCP_AUTH_TOKEN, or MCP_AUTH_TOKEN_FILE to the name"
    f" of a file that holds one. {HOW_TO_MAKE_ONE}"
)
BAD_TOKEN = (
    "MCP_AUTH_TOKEN (or what MCP_AUTH_TOKEN_FILE holds) must be"
    f" {SHORTEST_TOKEN} or more visible ASCII characters. {HOW_TO_MAKE_ONE}"
)
TWO_TOKENS = "MCP_AUTH_TOKEN and MCP_AUTH_TOKEN_FILE exclude each other: set one of them."
UNREADABLE = "MCP_AUTH_TOKEN_FILE must be the name of a text file that can be read."
BAD_PREVIOUS = (
    "MCP_AUTH_TOKEN_PREVIOUS (or what MCP_AUTH_TOKEN_PREVIOUS_FILE holds) is the token of before"
    f" and must be {SHORTEST_TOKEN} or more visible ASCII characters, or empty when it has ended."
)
TWO_PREVIOUS = (
    "MCP_AUTH_TOKEN_PREVIOUS and MCP_AUTH_TOKEN_PREVIOUS_FILE exclude each other: set one of them."
)

Settings = TypeVar("Settings", bound=BaseSettings)


class BadSetting(ValueError):
    """A variable has a value that is not allowed; the message is a sentence that says which."""


def _split(value: object) -> object:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def _lower(value: object) -> object:
    return value.strip().lower() if isinstance(value, str) else value


def _check_host(text: str) -> str:
    read_host(text)
    return text


def _check_origin(text: str) -> str:
    if ORIGIN.fullmatch(text.lower()) is None:
        raise ValueError
    return text.lower()


def _check_network(text: str) -> str:
    ip_network(text)
    return text


Host = Annotated[str, AfterValidator(_check_host)]
Hosts = Annotated[tuple[Host, ...], NoDecode, BeforeValidator(_split)]
Origin = Annotated[str, AfterValidator(_check_origin)]
Origins = Annotated[tuple[Origin, ...], NoDecode, BeforeValidator(_split)]
Network = Annotated[str, AfterValidator(_check_network)]
Networks = Annotated[tuple[Network, ...], NoDecode, BeforeValidator(_split)]
Toolsets = Annotated[tuple[Literal["facts"], ...], NoDecode, BeforeValidator(_split)]
Transport = Annotated[Literal["stdio", "http"], BeforeValidator(_lower)]
LogFormat = Annotated[Literal["json", "text"], BeforeValidator(_lower)]
LogLevel = Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(_lower)]


class GatewaySettings(BaseSettings):
    """Each field is the variable `MCP_<NAME>`; its description completes "must be …".

    `auth_token` is the token wherever it was found.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, extra="ignore", frozen=True
    )

    transport: Transport = Field("stdio", description="stdio or http")
    http_host: Host = Field("127.0.0.1", min_length=1, description="an address or a host name")
    http_port: int = Field(
        8000, ge=0, le=65535, description="a port from 1 to 65535, or 0 for any free one"
    )
    auth_token: SecretStr | None = None
    auth_token_file: Path | None = None
    auth_token_previous: SecretStr | None = None
    auth_token_previous_file: Path | None = None
    allowed_hosts: Hosts = Field(
        (), description="host names, each with a port or without, separated by commas"
    )
    allowed_origins: Origins = Field(
        (), description="origins such as https://app.example, separated by commas"
    )
    trusted_proxies: Networks = Field(
        (), description="addresses or networks such as 10.0.0.0/8, separated by commas"
    )
    max_sessions: int = Field(256, ge=1, le=100_000, description="a number from 1 to 100000")
    max_in_flight: int = Field(256, ge=1, le=100_000, description="a number from 1 to 100000")
    max_streams: int = Field(256, ge=1, le=100_000, description="a number from 1 to 100000")
    rate_per_second: float = Field(
        300, ge=0.001, le=1e6, description="a number from 0.001 to 1000000"
    )
    rate_burst: int = Field(1_000, ge=1, le=1_000_000, description="a number from 1 to 1000000")
    embed_changes: bool = Field(default=False, description="on or off")
    client_id: str | None = Field(
        None, max_length=128, description="a name of at most 128 characters"
    )
    enable_demo_tools: bool = Field(default=False, description="1 or 0")
    toolsets: Toolsets = Field(("facts",), description="a list of toolsets, which are: facts")
    log_level: LogLevel = Field("info", description="debug, info, warning or error")
    log_format: LogFormat | None = Field(None, description="json or text")
    debug_log: Path | None = Field(None, description="the name of a file")
    otel_endpoint: str | None = Field(
        None,
        validation_alias="OTEL_EXPORTER_OTLP_ENDPOINT",
        pattern=r"^https?://[^/\s]",
        description="the URL of a collector (OTLP over HTTP)",
    )
    otel_service_name: str = Field("memory-bridge", validation_alias="OTEL_SERVICE_NAME")

    @model_validator(mode="before")
    @classmethod
    def _read_token_files(cls, given: dict[str, Any]) -> dict[str, Any]:
        file, previous_file = given.get("auth_token_file"), given.get("auth_token_previous_file")
        if file and given.get("auth_token"):
            raise ValueError(TWO_TOKENS)
        if previous_file and given.get("auth_token_previous"):
            raise ValueError(TWO_PREVIOUS)
        found: dict[str, str | None] = {}
        if file:
            found["auth_token"] = _token_in(Path(file))
        if previous_file:
            found["auth_token_previous"] = _previous_token_in(Path(previous_file))
        return given | found

    @model_validator(mode="after")
    def _check_tokens(self) -> Self:
        if self.auth_token is None and self.transport == "http":
            raise ValueError(NO_TOKEN)
        self.tokens()
        return self

    def tokens(self) -> tuple[str, ...]:
        """The installation's tokens: the present one, and the previous one if there is one. What
        stands in files is read again. Raises `ValueError` with a sentence."""
        file, previous_file = self.auth_token_file, self.auth_token_previous_file
        present = _token_in(file) if file else _revealed(self.auth_token)
        previous = (
            _previous_token_in(previous_file)
            if previous_file
            else _revealed(self.auth_token_previous)
        )
        both = _checked(present, BAD_TOKEN), _checked(previous, BAD_PREVIOUS)
        return tuple(token for token in both if token is not None)


def _revealed(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()


def _checked(token: str | None, complaint: str) -> str | None:
    if token is not None and not _is_token(token):
        raise ValueError(complaint)
    return token


def _token_in(file: Path) -> str:
    try:
        return file.expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError, RuntimeError):
        raise ValueError(UNREADABLE) from None


def _previous_token_in(file: Path) -> str | None:
    """A file that is empty or is not there says that the token of before has ended."""
    try:
        return file.expanduser().read_text(encoding="utf-8").strip() or None
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, RuntimeError):
        raise ValueError(BAD_PREVIOUS) from None


def _is_token(token: str) -> bool:
    return len(token) >= SHORTEST_TOKEN and all("!" <= character <= "~" for character in token)


def read(model: type[Settings], given: Mapping[str, Any]) -> Settings:
    """Returns the settings of a model; what is given wins. Raises `BadSetting`."""
    try:
        return model(**given)
    except ValidationError as error:
        raise BadSetting(_sentence(model, error)) from None


def _sentence(model: type[BaseSettings], error: ValidationError) -> str:
    """What is wrong first. The value is not repeated: it may be a secret."""
    found = error.errors(include_url=False, include_input=False)[0]
    if not found["loc"]:
        return found["msg"].removeprefix("Value error, ")
    name, field = _field(model, str(found["loc"][0]))
    if field.description is None:
        return f"{name} is not allowed: {found['msg']}."
    return f"{name} must be {field.description}."


def _field(model: type[BaseSettings], place: str) -> tuple[str, FieldInfo]:
    """A variable's name and its field, by where pydantic found a fault: by alias if it has one."""
    aliases = {str(it.validation_alias): it for it in model.model_fields.values()}
    if place in aliases:
        return place, aliases[place]
    return f"{PREFIX}{place.upper()}", model.model_fields[place]


def variable_names(*models: type[BaseSettings]) -> set[str]:
    """Each field's variable: its alias if it has one, as those that others have named."""
    return {
        str(field.validation_alias or f"{model.model_config.get('env_prefix', '')}{name}").upper()
        for model in models
        for name, field in model.model_fields.items()
    }


def misspelled(known: Iterable[str], environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Unknown `MCP_…` variables that are close to a known one, each with the known one."""
    names = set(known)
    unknown = sorted(name for name in environ if name.startswith(PREFIX) and name not in names)
    near = {name: get_close_matches(name, names, n=1, cutoff=0.85) for name in unknown}
    return {name: matches[0] for name, matches in near.items() if matches}
