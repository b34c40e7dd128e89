"""The archive of what leaves a store: an export's lines, and what of them may then be deleted."""

import hashlib
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from memory_store.contract import Internal, Moment
from memory_store.operations.export import text_of
from memory_store.operations.lines import (
    Header,
    VersionLine,
    event_line,
    parse,
    version_line,
)
from memory_store.operations.old import Old
from memory_store.operations.progress import Progress


@dataclass
class Archive:
    """What was written: the ids of the events, and how many of each kind a namespace had."""

    counts: dict[str, int]
    event_ids: "array[int]" = field(default_factory=lambda: array("q"))
    by_namespace: dict[str | None, Counter[str]] = field(
        default_factory=dict[str | None, Counter[str]]
    )
    sha256: str = ""

    def note(self, namespace: str | None, kind: str) -> None:
        self.by_namespace.setdefault(namespace, Counter())[kind] += 1


def write(old: Old, file: Path, now: Moment, progress: Progress, *, versions: bool) -> Archive:
    """Writes the file and reads it again."""
    archive = Archive(
        {"version": old.count_versions() if versions else 0, "event": old.count_events()}
    )
    digest = hashlib.sha256()
    total = sum(archive.counts.values())
    with file.open("wb") as out:
        for done, text in enumerate(_texts(old, archive, now)):
            out.write(text)
            digest.update(text)
            progress("archived", done, total)
    archive.sha256 = digest.hexdigest()
    _verify(file, archive, total + 1)
    return archive


def versions_in(file: Path) -> Iterator[VersionLine]:
    with file.open("rb") as lines:
        for text in lines:
            line = parse(text)
            if isinstance(line, VersionLine):
                yield line


def _texts(old: Old, archive: Archive, now: Moment) -> Iterator[bytes]:
    yield text_of(Header(exported_at=now, counts=archive.counts))
    if archive.counts["version"]:
        for row in old.versions():
            archive.note(row["namespace"], "versions")
            yield text_of(version_line(row))
    for row in old.events():
        archive.note(row["namespace"], "events")
        archive.event_ids.append(row["id"])
        yield text_of(event_line(row))


def _verify(file: Path, archive: Archive, expected: int) -> None:
    digest = hashlib.sha256()
    lines = 0
    with file.open("rb") as written:
        for text in written:
            digest.update(text)
            lines += 1
    if (lines, digest.hexdigest()) != (expected, archive.sha256):
        raise Internal("the archive does not hold what was written to it; nothing was deleted")
