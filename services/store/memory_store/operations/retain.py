"""Retain: old events leave the trail for an archive, which is verified first."""

from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from memory_store import events
from memory_store.clock import Clock, moment
from memory_store.contract import Caller, Conflict, Invalid, Moment, iso
from memory_store.engine import Engine, Session
from memory_store.events import Entry
from memory_store.namespaces import NUMBER
from memory_store.operations import archive
from memory_store.operations.archive import Archive
from memory_store.operations.files import new_file
from memory_store.operations.lines import VersionLine
from memory_store.operations.old import Old
from memory_store.operations.progress import Progress
from memory_store.operations.report import Report, counted

DAY_MS = 24 * 3600 * 1000
AT_ONCE = 1000
"""Rows deleted in one transaction, so that writes are never kept waiting for long."""


class Retained(Report):
    """What was older than `until`; without any of it there is no archive."""

    until: Moment
    events: int = 0
    versions: int = 0
    archive: str | None = None
    sha256: str | None = None

    def sentences(self) -> list[str]:
        if self.archive is None:
            return [f"nothing is older than {iso(self.until)}"]
        gone = counted({"events": self.events, "versions": self.versions})
        return [
            f"{gone} from before {iso(self.until)} are now in {self.archive}",
            f"its SHA-256 is {self.sha256}",
        ]


@dataclass(frozen=True)
class Retention:
    """What goes, where to, and who says so; `versions` adds those that nothing refers to."""

    days: int
    file: Path
    caller: Caller
    versions: bool = False


def retain(engine: Engine, retention: Retention, clock: Clock, progress: Progress) -> Retained:
    """Archives, verifies, says so in the trail of each namespace, and only then deletes.

    Events that tell of a retention are kept for ever, and of every key its newest version.
    Raises `Invalid`, and `Conflict` when the archive's name is taken.
    """
    if retention.days < 1:
        raise Invalid("at least the last day is kept: --days must be 1 or more")
    now = clock()
    until = now - retention.days * DAY_MS
    with engine.read() as session:
        old = Old(session, until)
        if not old.count_events() and not (retention.versions and old.count_versions()):
            return Retained(until=moment(until))
        with new_file(retention.file, replace=False) as part:
            archived = archive.write(old, part, moment(now), progress, versions=retention.versions)
    engine.write(partial(_note, retention, archived, now, iso(moment(until))))
    _delete_events(engine, archived, until, progress)
    _delete_versions(engine, retention.file)
    return Retained(
        until=moment(until),
        events=archived.counts["event"],
        versions=archived.counts["version"],
        archive=str(retention.file),
        sha256=archived.sha256,
    )


def _note(retention: Retention, archived: Archive, now: int, until: str, session: Session) -> None:
    for namespace, counts in archived.by_namespace.items():
        detail = {
            **counts,
            "until": until,
            "archive": retention.file.name,
            "sha256": archived.sha256,
        }
        entry = Entry(
            at=now, namespace=namespace, kind="retain", caller=retention.caller, detail=detail
        )
        events.append(session, entry)


def _delete_events(engine: Engine, archived: Archive, until: int, progress: Progress) -> None:
    ids = archived.event_ids
    for start in range(0, len(ids), AT_ONCE):
        some = ids[start : start + AT_ONCE]
        engine.write(partial(_delete_between, some[0], some[-1], until, len(some)))
        progress("deleted", start, len(ids))


def _delete_between(first: int, last: int, until: int, expected: int, session: Session) -> None:
    deleted = session.run(
        "DELETE FROM event WHERE id >= :first AND id <= :last AND at < :until AND kind <> 'retain'",
        first=first,
        last=last,
        until=until,
    )
    _must_be_archived(deleted, expected)


def _delete_versions(engine: Engine, file: Path) -> None:
    versions = archive.versions_in(file)
    while some := list(islice(versions, AT_ONCE)):
        engine.write(partial(_delete_each, some))


def _delete_each(some: list[VersionLine], session: Session) -> None:
    for line in some:
        deleted = session.run(
            f"DELETE FROM fact_version WHERE namespace_id = {NUMBER} AND key = :key"
            " AND version = :version",
            namespace=line.namespace,
            key=line.key,
            version=line.version,
        )
        _must_be_archived(deleted, 1)


def _must_be_archived(deleted: int, archived: int) -> None:
    if deleted != archived:
        raise Conflict(
            "the store changed while it was archived; what is not in the archive was kept, run"
            " it again with another archive"
        )
