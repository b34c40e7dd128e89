"""Where a memory is to move, as it was typed. An address is never repeated: it holds a password."""

import re
from pathlib import Path

from memory_store.contract import Conflict, Invalid
from memory_store.settings import POSTGRES, StoreSettings, read

_MEANT_FOR_AN_ADDRESS = re.compile(
    r"^\w[\w+.-]+:/|^[^/\\@]+:[^/\\]*@|\bpassword=",  # mysql://, user:password@, libpq's own form
    re.IGNORECASE,
)


def settings_of(target: str) -> StoreSettings:
    """Returns the settings of a store at an address or in a file. Raises `Invalid`."""
    if target.startswith(POSTGRES):
        return read(StoreSettings, memory_db=None, database_url=target)
    if not target or _MEANT_FOR_AN_ADDRESS.search(target):
        raise Invalid(
            "the target is neither an address such as postgresql://user@host:5432/database nor the"
            " name of a SQLite file; nothing was moved"
        )
    return read(StoreSettings, memory_db=Path(target), database_url=None)


def refuse_same(origin: StoreSettings, destination: StoreSettings) -> None:
    """Raises `Conflict` where a memory would move to where it is."""
    if origin.database_url or destination.database_url:
        same = origin.database_url == destination.database_url
    else:
        old, new = origin.database_path, destination.database_path
        same = old.exists() and new.exists() and old.samefile(new)
    if same:
        raise Conflict("the target is where the memory is already; nothing was moved")
