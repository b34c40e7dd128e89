"""Files that are whole under their name or not there at all."""

import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from memory_store.contract import Conflict

OWNER_ONLY = 0o600
"""What is in a memory is nobody else's business."""
COMPANIONS = ("-wal", "-shm", "-journal")
"""Files that SQLite keeps beside a database and applies to whatever has its name."""


@contextmanager
def new_file(path: Path, *, replace: bool) -> Generator[Path]:
    """Yields a temporary name beside `path`; at the end the file there is called `path`.

    Raises `Conflict` when `path` exists and `replace` is not said, `OSError`.
    """
    _refuse_existing(path, replace=replace)
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, OWNER_ONLY))
        yield part
        sync(part)
        _refuse_existing(path, replace=replace)
        part.replace(path)
        sync(path.parent)
    finally:
        for leftover in (part, *companions(part)):
            leftover.unlink(missing_ok=True)


def companions(path: Path) -> list[Path]:
    return [path.with_name(path.name + suffix) for suffix in COMPANIONS]


def sync(path: Path) -> None:
    """Returns when a file, or the names in a folder, would survive a power loss."""
    if path.is_dir() and os.name == "nt":
        return  # Windows opens no folders
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _refuse_existing(path: Path, *, replace: bool) -> None:
    if path.exists() and not replace:
        raise Conflict(f"{path} exists already; name another file, or say --force to replace it")
    if open_companions := [file.name for file in companions(path) if file.exists()]:
        raise Conflict(
            f"{open_companions[0]} lies beside {path}: a database of that name is in use or was"
            " not closed; name another file"
        )
