"""What the embedder takes from the environment, read once."""

import os
import sys
from pathlib import Path

from platformdirs import user_data_path
from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from memory_embedder.models import DEFAULT_MODEL

PREFIX = "MCP_"


class BadSetting(ValueError):
    """A variable has a value that is not allowed; the message is a sentence that says which."""


class EmbedderSettings(BaseSettings):
    """Each field is the variable `MCP_<NAME>`; its description completes "must be …"."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, frozen=True)

    embeddings: bool = Field(default=True, description="on or off")
    embedding_model: str = Field(
        default=DEFAULT_MODEL,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        description="the name of a model, for example all-MiniLM-L6-v2",
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


def read() -> EmbedderSettings:
    """Returns the settings. Raises `BadSetting`."""
    try:
        return EmbedderSettings()
    except ValidationError as error:
        raise BadSetting(_sentence(error)) from None


def _sentence(error: ValidationError) -> str:
    first = error.errors()[0]
    name = str(first["loc"][0]).removeprefix(PREFIX.lower())
    allowed = EmbedderSettings.model_fields[name].description
    return f"{PREFIX}{name.upper()} must be {allowed}, not {first['input']!r}."


def forbid_reports() -> None:
    """Tells onnxruntime, before it is loaded, to send nothing to anybody."""
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
