"""The store's settings, read once."""

from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from platformdirs import user_data_path
from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from memory_store.wire import authorization

POSTGRES = ("postgresql://", "postgres://")
Settings = TypeVar("Settings", bound=BaseSettings)


class SettingsError(Exception):
    """A setting that stops the start. The message names the variable and what is allowed."""


class StoreSettings(BaseSettings):
    """Each field is the variable `MCP_<NAME>`; its description completes "must be …"."""

    model_config = SettingsConfigDict(
        env_prefix="MCP_", env_ignore_empty=True, frozen=True, extra="ignore"
    )

    memory_db: Path | None = Field(None, description="the name of a SQLite file")
    memory_store_dir: Path | None = Field(
        None, description="the folder of memory.db, used when MCP_MEMORY_DB names no file"
    )
    database_url: SecretStr | None = Field(
        None, description="an address such as postgresql://user:password@host:5432/database"
    )
    database_url_file: Path | None = None
    sqlite_busy_timeout: int = Field(
        5000,
        ge=0,
        le=600_000,
        description="a number of milliseconds from 0 (a locked database fails at once) to 600000",
    )
    log_reads: bool = Field(default=True, description="on or off")
    max_key_len: int = Field(
        256, ge=1, le=4096, description="a number of characters from 1 to 4096"
    )
    max_value_len: int = Field(
        16_384, ge=1, le=1_048_576, description="a number of characters from 1 to 1048576"
    )

    @property
    def database_path(self) -> Path:
        folder = self.memory_store_dir or user_data_path("memory-bridge", appauthor=False)
        return self.memory_db or folder / "memory.db"

    @property
    def place(self) -> str:
        """Where the memory is, for people."""
        return str(self.database_path.absolute()) if self.database_url is None else "Postgres"

    @field_validator("memory_db", "memory_store_dir")
    @classmethod
    def _expand(cls, path: Path | None) -> Path | None:
        try:
            return path and path.expanduser()
        except RuntimeError:
            raise ValueError("its ~ stands for nobody's folder") from None

    @model_validator(mode="before")
    @classmethod
    def _find_address(cls, given: dict[str, Any]) -> dict[str, Any]:
        address, file = given.get("database_url"), given.get("database_url_file")
        if "database_url" not in given and file:
            address = _read_file("MCP_DATABASE_URL_FILE", Path(file))
        if address and given.get("memory_db"):
            raise ValueError(
                "A memory is in one place: name a SQLite file (MCP_MEMORY_DB) or a Postgres"
                " database (MCP_DATABASE_URL), not both"
            )
        return given | {"database_url": address or None}

    @field_validator("database_url")
    @classmethod
    def _check_address(cls, address: SecretStr | None) -> SecretStr | None:
        if address and not address.get_secret_value().startswith(POSTGRES):
            raise ValueError("it names no Postgres database")
        return address


def _with_secret(given: dict[str, Any], reason: str) -> dict[str, Any]:
    """The settings with the secret in its place, wherever it is. Raises `ValueError`."""
    secret, file = given.get("secret"), given.get("secret_file")
    if bool(secret) == bool(file):
        raise ValueError(
            f"{reason}: set either MCP_STORE_SECRET or MCP_STORE_SECRET_FILE, the name of a file"
            " that holds it"
        )
    return given | {"secret": _read_file("MCP_STORE_SECRET_FILE", Path(file)) if file else secret}


class ServerSettings(BaseSettings):
    """Where a store serves, and the secret that it asks for, wherever that was found."""

    model_config = SettingsConfigDict(
        env_prefix="MCP_STORE_", env_ignore_empty=True, frozen=True, extra="ignore"
    )

    host: str = Field("127.0.0.1", min_length=1)
    port: int = Field(8100, ge=0, le=65535)
    secret: SecretStr = Field(min_length=16)
    secret_file: Path | None = None

    @model_validator(mode="before")
    @classmethod
    def _find_secret(cls, given: dict[str, Any]) -> dict[str, Any]:
        return _with_secret(
            given, "A store is served only behind a secret of at least 16 characters"
        )

    @field_validator("secret")
    @classmethod
    def _check_secret(cls, secret: SecretStr) -> SecretStr:
        authorization(secret.get_secret_value())
        return secret


class ClientSettings(BaseSettings):
    """Where a store in another process serves, None if there is none, and the secret for it,
    wherever that was found."""

    model_config = SettingsConfigDict(
        env_prefix="MCP_STORE_", env_ignore_empty=True, frozen=True, extra="ignore"
    )

    url: str | None = Field(None, description="an address such as http://host:8100")
    secret: SecretStr = SecretStr("")
    secret_file: Path | None = None

    @model_validator(mode="before")
    @classmethod
    def _find_secret(cls, given: dict[str, Any]) -> dict[str, Any]:
        if not given.get("url"):
            return {}
        return _with_secret(given, "A store is reached only with its secret")

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str | None) -> str | None:
        parts = urlsplit(url or "")
        if url and (parts.scheme not in ("http", "https") or not parts.hostname or parts.username):
            raise ValueError("it is no store's address")
        return url

    @field_validator("secret")
    @classmethod
    def _check_secret(cls, secret: SecretStr) -> SecretStr:
        if text := secret.get_secret_value():
            authorization(text)
        return secret


def read(settings: type[Settings], **given: Any) -> Settings:
    """Reads the environment; what is given wins. Raises `SettingsError`."""
    try:
        return settings(**given)
    except ValidationError as error:
        raise SettingsError(_sentence(settings, error)) from None


def _sentence(settings: type[BaseSettings], error: ValidationError) -> str:
    """Says what is wrong first, and never the value: it may be the secret."""
    first = error.errors(include_url=False, include_input=False)[0]
    reason = first["msg"].removeprefix("Value error, ")
    if not first["loc"]:
        return f"{reason}."
    field = str(first["loc"][0])
    variable = f"{settings.model_config.get('env_prefix', '')}{field}".upper()
    if allowed := settings.model_fields[field].description:
        return f"{variable} must be {allowed}."
    return f"{variable} is not allowed: {reason[:1].lower()}{reason[1:]}."


def _read_file(variable: str, file: Path) -> str:
    try:
        return file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise ValueError(f"{variable} must name a readable text file") from None
