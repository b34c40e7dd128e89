"""Runs an operation on the store that the settings name: what `memory-bridge` hands over to."""

import shutil
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import SecretStr

from memory_store.clock import moment, system_clock
from memory_store.contract import (
    DEFAULT_NAMESPACE,
    Caller,
    Invalid,
    Moment,
    NotFound,
    Problem,
    Store,
    StoreError,
    TokenGrant,
    TokenScope,
    Word,
)
from memory_store.engine import Engine
from memory_store.opening import NotOurs, SchemaTooNew, limits_of, open_engine, open_store, place_of
from memory_store.operations import tokens
from memory_store.operations.backup import backup
from memory_store.operations.check import check
from memory_store.operations.export import export
from memory_store.operations.files import new_file
from memory_store.operations.import_ import import_
from memory_store.operations.landing import Plan, Policy
from memory_store.operations.migrate import migrate, rehearse
from memory_store.operations.progress import Progress
from memory_store.operations.report import Report
from memory_store.operations.restore import restore
from memory_store.operations.retain import Retention, retain
from memory_store.operations.targets import refuse_same, settings_of
from memory_store.settings import SettingsError, StoreSettings, read

STREAM = "-"


class Request(Word):
    """What was typed; `db` is a file in place of the store that the environment names."""

    db: Path | None = None
    client_id: str | None = None
    namespace: str = DEFAULT_NAMESPACE
    file: str = ""
    force: bool = False
    on_duplicate: Policy = "skip"
    dry_run: bool = False
    repair: bool = False
    days: int = 0
    archive: Path | None = None
    versions: bool = False
    target: SecretStr = SecretStr("")
    name: str = ""
    scopes: tuple[TokenScope, ...] = ()
    namespaces: tuple[str, ...] | None = None
    expires_at: Moment | None = None
    overlap_seconds: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """What came of an operation, in sentences and as JSON; or the problem that prevented it.

    `is_good` is False when something was found or refused that somebody must see to.
    """

    is_good: bool = False
    sentences: list[str] = field(default_factory=list[str])
    answer: dict[str, Any] = field(default_factory=dict[str, Any])
    problem: dict[str, Any] | None = None


@dataclass(frozen=True)
class _Job:
    settings: StoreSettings
    request: Request
    progress: Progress

    @property
    def caller(self) -> Caller:
        return Caller(principal="local", source_client=self.request.client_id or "memory-bridge")

    @property
    def path(self) -> Path:
        return Path(self.request.file).expanduser()

    @property
    def database(self) -> Path:
        """Raises `Invalid` where the store is not a file."""
        if self.settings.database_url is not None:
            raise Invalid(
                "the store is on a server, which makes copies of its own (pg_dump); use export, or"
                " --db FILE for a SQLite file"
            )
        return self.settings.database_path

    @contextmanager
    def engine(self, *, new: bool = False) -> Generator[Engine]:
        """Raises `NotFound` where there is no store, unless it may be `new`."""
        self._check_is_there(new=new)
        with closing(open_engine(self.settings)) as engine:
            yield engine

    @contextmanager
    def store(self, *, new: bool = False) -> Generator[Store]:
        """As `engine`, with the store on it."""
        self._check_is_there(new=new)
        with closing(open_store(self.settings)) as store:
            yield store

    def _check_is_there(self, *, new: bool) -> None:
        is_file = self.settings.database_url is None
        if is_file and not new and not self.settings.database_path.exists():
            raise NotFound(f"there is no memory at {self.settings.database_path}")


def run(name: str, /, **arguments: object) -> Outcome:
    """Returns what became of the operation `name`; only an interruption or a closed pipe raises."""
    progress = Progress(sys.stderr)
    try:
        request = Request.model_validate(arguments)
        report = OPERATIONS[name](_Job(_settings(request), request, progress))
    except StoreError as error:
        return _refused(error.code, str(error))
    except (NotOurs, SchemaTooNew) as error:
        return _refused(Invalid.code, str(error))
    except SettingsError as error:
        return _refused("wrong_usage", str(error))
    except BrokenPipeError:
        raise
    except OSError as error:
        return _refused("unavailable", f"{error.filename or 'the file'}: {error.strerror}")
    finally:
        progress.clear()
    return Outcome(
        is_good=report.is_good,
        sentences=report.sentences(),
        answer=report.model_dump(mode="json"),
    )


def _settings(request: Request) -> StoreSettings:
    if request.db is None:
        return read(StoreSettings)
    return read(StoreSettings, memory_db=request.db, database_url=None)


def _refused(code: str, message: str) -> Outcome:
    return Outcome(problem=Problem(code=code, message=message).model_dump(mode="json"))


def _backup(job: _Job) -> Report:
    return backup(job.database, job.path, job.progress, replace=job.request.force)


def _restore(job: _Job) -> Report:
    return restore(job.path, job.database, system_clock, job.progress)


def _export(job: _Job) -> Report:
    with job.engine() as engine:
        if job.request.file == STREAM:
            report = export(engine, sys.stdout.buffer, system_clock, job.progress)
            sys.stdout.buffer.flush()
            return report
        with new_file(job.path, replace=job.request.force) as part, part.open("wb") as out:
            return export(engine, out, system_clock, job.progress)


def _import(job: _Job) -> Report:
    plan = Plan(
        caller=job.caller,
        clock=system_clock,
        on_duplicate=job.request.on_duplicate,
        dry_run=job.request.dry_run,
        allowed=limits_of(job.settings),
    )
    with _readable(job) as file, job.engine(new=not plan.dry_run) as engine:
        return import_(engine, file, plan, job.progress, job.request.namespace)


@contextmanager
def _readable(job: _Job) -> Generator[BinaryIO]:
    """The file to import, or what a pipe brings: an import goes back to the beginning."""
    if job.request.file != STREAM:
        with job.path.open("rb") as file:
            yield file
        return
    with tempfile.TemporaryFile() as spool:
        shutil.copyfileobj(sys.stdin.buffer, spool)
        yield spool


def _check(job: _Job) -> Report:
    with job.engine() as engine:
        return check(engine, job.progress, repair=job.request.repair)


def _retain(job: _Job) -> Report:
    archive = job.request.archive
    retention = Retention(
        days=job.request.days,
        file=archive.expanduser() if archive else _default_archive(job.settings),
        caller=job.caller,
        versions=job.request.versions,
    )
    with job.engine() as engine:
        return retain(engine, retention, system_clock, job.progress)


def _default_archive(settings: StoreSettings) -> Path:
    """Beside the database; that of a server is nowhere here, so in the working folder."""
    database = settings.database_path if settings.database_url is None else Path("memory")
    return database.with_name(
        f"{database.name}.archived-{moment(system_clock()):%Y%m%dT%H%M%SZ}.jsonl"
    )


def _migrate_to(job: _Job) -> Report:
    settings = settings_of(job.request.target.get_secret_value())
    refuse_same(job.settings, settings)
    origin, destination = place_of(job.settings), place_of(settings)
    if job.request.dry_run:
        return rehearse(origin, destination)
    return migrate(origin, destination, job.progress)


def _create_token(job: _Job) -> Report:
    asked = job.request
    grant = TokenGrant(
        name=asked.name,
        scopes=asked.scopes,
        namespaces=asked.namespaces,
        expires_at=asked.expires_at,
    )
    with job.store(new=True) as store:
        return tokens.create(store, job.caller, grant)


def _rotate_token(job: _Job) -> Report:
    with job.store() as store:
        return tokens.rotate(store, job.caller, job.request.name, job.request.overlap_seconds)


def _revoke_token(job: _Job) -> Report:
    with job.store() as store:
        return tokens.revoke(store, job.caller, job.request.name)


def _list_tokens(job: _Job) -> Report:
    with job.store() as store:
        return tokens.every(store)


OPERATIONS: dict[str, Callable[[_Job], Report]] = {
    "backup": _backup,
    "restore": _restore,
    "export": _export,
    "import": _import,
    "check": _check,
    "retain": _retain,
    "migrate-to": _migrate_to,
    "token create": _create_token,
    "token rotate": _rotate_token,
    "token revoke": _revoke_token,
    "token list": _list_tokens,
}
