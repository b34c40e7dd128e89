"""What the embedder takes from the environment, read once."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import quote, urlsplit, urlunsplit

from platformdirs import user_data_path
from pydantic import (
    BeforeValidator,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, SettingsConfigDict

from memory_embedder.models import DEFAULT_MODEL

PREFIX = "MCP_"
REDIS = ("redis://", "rediss://")
TWO_URLS = "MCP_REDIS_URL and MCP_REDIS_URL_FILE exclude each other: set one of them"
TWO_PASSWORDS = (
    "A password for Redis stands in its address or in the file that MCP_REDIS_PASSWORD_FILE names,"
    " not in both"
)

Settings = TypeVar("Settings", bound=BaseSettings)


class BadSetting(ValueError):
    """A variable has a value that is not allowed; the message is a sentence that says which."""


def _lower(value: object) -> object:
    return value.strip().lower() if isinstance(value, str) else value


LogLevel = Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(_lower)]


class EmbedderSettings(BaseSettings):
    """Each field is the variable `MCP_<NAME>`; its description completes "must be …"."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, frozen=True)

    embeddings: bool = Field(default=True, description="on or off")
    embedding_model: str = Field(
        default=DEFAULT_MODEL,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        description="the name of a model, for example all-MiniLM-L6-v2",
    )
    embedding_runtime: Literal["onnx", "transformer"] = Field(
        default="onnx", description="onnx or transformer"
    )
    model_dir: Path | None = Field(default=None, description="a folder that holds models")
    preload_model: bool = Field(default=False, description="on or off")
    query_deadline_ms: int = Field(
        default=1000, ge=1, le=60_000, description="a number of milliseconds from 1 to 60000"
    )
    embedding_threads: int = Field(default=1, ge=1, le=2, description="1 or 2")

    @field_validator("model_dir")
    @classmethod
    def _expand(cls, path: Path | None) -> Path | None:
        try:
            return path and path.expanduser()
        except RuntimeError:
            raise ValueError("its ~ stands for nobody's folder") from None

    @property
    def model_folders(self) -> tuple[Path, ...]:
        """Where models are looked for, in this order: nowhere else if a folder was chosen."""
        if self.model_dir is not None:
            return (self.model_dir,)
        installed = Path(sys.prefix, "share", "memory-bridge", "models")
        users_own = user_data_path("memory-bridge", appauthor=False) / "models"
        return (installed, users_own)


class WorkerSettings(BaseSettings):
    """What only a process of its own is told."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, frozen=True)

    beat_file: Path | None = Field(default=None, description="the name of a file")
    log_level: LogLevel = Field(default="info", description="debug, info, warning or error")


class RedisSettings(BaseSettings):
    """`url` is where Redis is, None if there is none, with the password wherever it was found."""

    model_config = SettingsConfigDict(
        env_prefix="MCP_REDIS_", env_ignore_empty=True, frozen=True, extra="ignore"
    )

    url: SecretStr | None = Field(
        default=None, description="redis://… or rediss://…, as in redis://host:6379/0"
    )
    url_file: Path | None = None
    password_file: Path | None = None

    @model_validator(mode="before")
    @classmethod
    def _read_files(cls, given: dict[str, Any]) -> dict[str, Any]:
        url, file = given.get("url"), given.get("url_file")
        if url and file:
            raise ValueError(TWO_URLS)
        if file:
            url = _content("MCP_REDIS_URL_FILE", file)
        if url and (password := given.get("password_file")):
            url = _with_password(str(url), _content("MCP_REDIS_PASSWORD_FILE", password))
        return given | {"url": url or None}

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: SecretStr | None) -> SecretStr | None:
        if url and not _is_of_a_redis(url.get_secret_value()):
            raise ValueError("it is no address of a Redis")
        return url


def _is_of_a_redis(url: str) -> bool:
    """Raises `ValueError` if it is no URL at all."""
    return url.startswith(REDIS) and urlsplit(url).port != 0


def _with_password(url: str, password: str) -> str:
    parts = urlsplit(url)
    if parts.password:
        raise ValueError(TWO_PASSWORDS)
    user, place = parts.username or "", parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{user}:{quote(password, safe='')}@{place}"))


def _content(variable: str, file: str | Path) -> str:
    try:
        return Path(file).expanduser().read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError, RuntimeError):
        raise ValueError(f"{variable} must be the name of a text file that can be read") from None


def read() -> EmbedderSettings:
    """Returns the settings. Raises `BadSetting`."""
    return _read(EmbedderSettings)


def read_worker() -> WorkerSettings:
    """Returns the settings. Raises `BadSetting`."""
    return _read(WorkerSettings)


def read_redis() -> RedisSettings:
    """Returns the settings. Raises `BadSetting`."""
    return _read(RedisSettings)


def _read(settings: type[Settings]) -> Settings:
    try:
        return settings()
    except ValidationError as error:
        raise BadSetting(_sentence(settings, error)) from None


def _sentence(settings: type[BaseSettings], error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    if not first["loc"]:
        return f"{first['msg'].removeprefix('Value error, ')}."
    prefix = str(settings.model_config.get("env_prefix"))
    name = str(first["loc"][0]).removeprefix(prefix.lower())
    field, given = settings.model_fields[name], first["input"]
    # What may be a secret is not repeated.
    ending = "" if "SecretStr" in str(field.annotation) else f", not {given!r}"
    return f"{prefix}{name.upper()} must be {field.description}{ending}."


def forbid_reports() -> None:
    """Tells onnxruntime, before it is loaded, to send nothing to anybody."""
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
