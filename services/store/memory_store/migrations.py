"""Numbered SQL files, each applied once, in order, in a transaction of its own engine."""

from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True)
class Migration:
    number: int
    name: str
    sql: str


class SchemaTooNew(Exception):
    """The database was written by a newer version of the product."""

    def __init__(self, found: int, known: int) -> None:
        super().__init__(
            f"the database has schema version {found}, this program knows up to {known}; "
            "start it with the newer version that wrote it"
        )


def migrations(engine: str) -> list[Migration]:
    folder = resources.files("memory_store").joinpath("sql", engine)
    files = sorted(
        (file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda f: f.name
    )
    return [
        Migration(int(file.name.split("_")[0]), file.name, file.read_text("utf-8"))
        for file in files
    ]


def outstanding(engine: str, applied: int) -> list[Migration]:
    """Returns what is still to be applied. Raises `SchemaTooNew`."""
    known = migrations(engine)
    newest = known[-1].number
    if applied > newest:
        raise SchemaTooNew(applied, newest)
    return [migration for migration in known if migration.number > applied]
