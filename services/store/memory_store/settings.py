"""The store's settings, read once."""

from pathlib import Path
from typing import Annotated

from platformdirs import user_data_path
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class StoreSettings(BaseSettings):
    """Raises pydantic's `ValidationError` for a value that is not allowed."""

    model_config = SettingsConfigDict(env_prefix="MCP_", frozen=True, extra="ignore")

    memory_db: Path | None = None
    """The SQLite file."""
    memory_store_dir: Path | None = None
    """Where the file lies that is named `memory.db` when `memory_db` names none."""
    sqlite_busy_timeout: Annotated[int, Field(ge=0, le=600_000)] = 5000
    """Milliseconds that a write waits for the lock; 0 fails at once."""
    log_reads: bool = True
    max_key_len: Annotated[int, Field(ge=1, le=4096)] = 256
    max_value_len: Annotated[int, Field(ge=1, le=1_048_576)] = 16_384

    @property
    def database_path(self) -> Path:
        folder = self.memory_store_dir or user_data_path("memory-bridge", appauthor=False)
        return (self.memory_db or folder / "memory.db").expanduser()
