"""The gateway's settings, read once from the environment."""

import os
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BeforeValidator, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

PREFIX = "MCP_"
SHORTEST_TOKEN = 16
HOW_TO_MAKE_ONE = (
    'To make one: python3 -c "import secrets; print(secrets.token_urlsafe(32))" > token.txt,'
    " and set MCP_AUTH_TOKEN_FILE=token.txt."
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

Settings = TypeVar("Settings", bound=BaseSettings)


class BadSetting(ValueError):
    """A variable has a value that is not allowed; the message is a sentence that says which."""


def _split(value: object) -> object:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def _lower(value: object) -> object:
    return value.strip().lower() if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
Toolsets = Annotated[tuple[Literal["facts"], ...], NoDecode, BeforeValidator(_split)]
Transport = Annotated[Literal["stdio", "http"], BeforeValidator(_lower)]
LogLevel = Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(_lower)]


class GatewaySettings(BaseSettings):
    """Each field is the variable `MCP_<NAME>`; its description completes "must be …".

    `auth_token` is the token wherever it was found.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, extra="ignore", frozen=True
    )

    transport: Transport = Field("stdio", description="stdio or http")
    http_host: str = Field("127.0.0.1", min_length=1, description="an address or a host name")
    http_port: int = Field(
        8000, ge=0, le=65535, description="a port from 1 to 65535, or 0 for any free one"
    )
    auth_token: SecretStr | None = None
    auth_token_file: Path | None = None
    allowed_hosts: Names = Field((), description="host names separated by commas")
    allowed_origins: Names = Field((), description="origins separated by commas")
    max_sessions: int = Field(1_000, ge=1, le=100_000, description="a number from 1 to 100000")
    client_id: str | None = Field(
        None, max_length=128, description="a name of at most 128 characters"
    )
    enable_demo_tools: bool = Field(default=False, description="1 or 0")
    toolsets: Toolsets = Field(("facts",), description="a list of toolsets, which are: facts")
    log_level: LogLevel = Field("info", description="debug, info, warning or error")

    @model_validator(mode="before")
    @classmethod
    def _read_token_file(cls, given: dict[str, Any]) -> dict[str, Any]:
        name = given.get("auth_token_file")
        if name is None:
            return given
        if given.get("auth_token") is not None:
            raise ValueError(TWO_TOKENS)
        try:
            token = Path(name).expanduser().read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            raise ValueError(UNREADABLE) from None
        return given | {"auth_token": token}

    @model_validator(mode="after")
    def _check_token(self) -> Self:
        if self.auth_token is None:
            if self.transport == "http":
                raise ValueError(NO_TOKEN)
        elif not _is_token(self.auth_token.get_secret_value()):
            raise ValueError(BAD_TOKEN)
        return self


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
    name = str(found["loc"][0])
    allowed = model.model_fields[name].description
    if allowed is None:
        return f"{PREFIX}{name.upper()} is not allowed: {found['msg']}."
    return f"{PREFIX}{name.upper()} must be {allowed}."


def variable_names(*models: type[BaseSettings]) -> set[str]:
    return {
        f"{model.model_config.get('env_prefix', '')}{name}".upper()
        for model in models
        for name in model.model_fields
    }


def misspelled(known: Iterable[str], environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Unknown `MCP_…` variables that are close to a known one, each with the known one."""
    names = set(known)
    unknown = sorted(name for name in environ if name.startswith(PREFIX) and name not in names)
    near = {name: get_close_matches(name, names, n=1, cutoff=0.85) for name in unknown}
    return {name: matches[0] for name, matches in near.items() if matches}
