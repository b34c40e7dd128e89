"""Backup: a copy of the SQLite file, made while writes go on, and verified before it counts."""

from contextlib import closing
from pathlib import Path

from memory_store.contract import Conflict, Internal, NotFound
from memory_store.operations.files import new_file
from memory_store.operations.progress import Progress
from memory_store.operations.report import Report, counted
from memory_store.sqlite.connection import connect
from memory_store.sqlite.copies import copy, counts, own_errors, reading, snapshot, verify
from memory_store.sqlite.file import user_version

TOLD = {
    "namespace": "namespaces",
    "fact": "facts",
    "fact_version": "versions",
    "event": "events",
    "vector": "vectors",
    "token": "tokens",
}


class Backup(Report):
    file: str
    bytes: int
    schema_version: int
    held: dict[str, int]

    def sentences(self) -> list[str]:
        size = f"schema version {self.schema_version}, {self.bytes:,} bytes"
        return [f"{self.file} holds {counted(self.held)} ({size}), verified"]


def backup(database: Path, file: Path, progress: Progress, *, replace: bool = False) -> Backup:
    """Copies the database as it is at the start: every write acknowledged before that is in it.

    Raises `NotFound`, `Conflict`, and what a source that is not a whole database of ours raises.
    """
    if not database.exists():
        raise NotFound(f"there is no memory at {database}; nothing was backed up")
    if file.exists() and file.samefile(database):
        raise Conflict(f"{file} is the memory itself; name another file")
    with (
        own_errors(database),
        new_file(file, replace=replace) as part,
        snapshot(database) as source,
    ):
        expected = counts(source)
        with closing(connect(part)) as target:
            copy(source, target, lambda done, total: progress("copied", done, total))
        version, found = _reopened(part)
        if found != expected:
            raise Internal("the copy does not hold what the memory does; nothing was kept")
        size = part.stat().st_size
    return Backup(file=str(file), bytes=size, schema_version=version, held=told(found))


def told(tables: dict[str, int]) -> dict[str, int]:
    return {name: tables[table] for table, name in TOLD.items() if table in tables}


def _reopened(part: Path) -> tuple[int, dict[str, int]]:
    with reading(part) as connection:
        return user_version(connection), verify(connection, part)
