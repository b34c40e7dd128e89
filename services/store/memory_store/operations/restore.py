"""Restore: a verified backup in the place of the SQLite file, which is kept beside it."""

import itertools
import sqlite3
from collections.abc import Generator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from memory_store.clock import Clock, moment
from memory_store.contract import Conflict, Internal, NotFound
from memory_store.operations.backup import told
from memory_store.operations.files import companions, new_file
from memory_store.operations.progress import Progress
from memory_store.operations.report import Report, counted
from memory_store.sqlite.connection import connect
from memory_store.sqlite.copies import alone, copy, is_unreadable, own_errors, reading, verify


class Restored(Report):
    database: str
    replaced: str | None
    held: dict[str, int]

    def sentences(self) -> list[str]:
        kept = [f"what was there before is now {self.replaced}"] if self.replaced else []
        return [f"{self.database} holds {counted(self.held)}", *kept]


def restore(file: Path, database: Path, clock: Clock, progress: Progress) -> Restored:
    """Writes the backup into the database's own file, through SQLite and alone with it.

    So a server that starts meanwhile waits and finds the new content, a journal of the old
    content cannot be applied to the new one, and a restore that is killed leaves the old one.
    Raises `Busy` while another process has the database open, `NotFound`, `Conflict`, and what a
    backup that is not a whole database of ours raises.
    """
    if not file.is_file():
        raise NotFound(f"there is no file {file}; to restore a fact, name its version too")
    if database.exists() and file.samefile(database):
        raise Conflict(f"{file} is the memory itself; name a backup of it")
    database.parent.mkdir(parents=True, exist_ok=True)
    aside = database.with_name(f"{database.name}.replaced-{moment(clock()):%Y%m%dT%H%M%SZ}")
    aside = aside if not aside.exists() else _numbered(aside)
    with own_errors(file), reading(file) as source:
        expected = verify(source, file)
        with _place(database, aside) as (target, replaced):
            copy(source, target, lambda done, total: progress("restored", done, total))
            if verify(target, database) != expected:
                raise Internal(f"the copy is not what {file} holds; see {replaced or database}")
    return Restored(
        database=str(database), replaced=replaced and str(replaced), held=told(expected)
    )


def _numbered(taken: Path) -> Path:
    """What another restore put aside in the same second stays as it is."""
    names = (taken.with_name(f"{taken.name}.{number}") for number in itertools.count(2))
    return next(path for path in names if not path.exists())


@contextmanager
def _place(database: Path, aside: Path) -> Generator[tuple[sqlite3.Connection, Path | None]]:
    """Yields the only connection to the database, and where its content is kept if it had any."""
    empty = not database.exists() or not database.stat().st_size
    if empty:
        # A journal without its database would be applied to whatever gets its name.
        _set_aside(companions(database), database, aside)
    with ExitStack() as stack:
        try:
            target = stack.enter_context(alone(database))
            if not empty:
                _keep(target, aside)
        except sqlite3.DatabaseError as error:
            if not is_unreadable(error):
                raise
            stack.close()
            _set_aside([database, *companions(database)], database, aside)
            target = stack.enter_context(alone(database))
        yield target, None if empty else aside


def _keep(target: sqlite3.Connection, aside: Path) -> None:
    with new_file(aside, replace=False) as part, closing(connect(part)) as kept:
        copy(target, kept, lambda _done, _total: None)


def _set_aside(files: list[Path], database: Path, aside: Path) -> None:
    for file in files:
        if file.exists():
            file.rename(aside.with_name(aside.name + file.name.removeprefix(database.name)))
