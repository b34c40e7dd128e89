"""Import: an export, or the reference server's file, line by line into a store."""

from collections.abc import Iterator
from dataclasses import replace
from typing import BinaryIO

from memory_store.contract import DEFAULT_NAMESPACE, Conflict, Invalid, Word
from memory_store.engine import Engine, Session
from memory_store.operations.landing import Landed, Landing, Plan
from memory_store.operations.lines import EventLine
from memory_store.operations.progress import Progress
from memory_store.operations.report import Report, counted
from memory_store.operations.source import Source

LINES_AT_ONCE = 200
"""Lines in one transaction: a running server's writes wait for it."""
FAULTS_TOLD = 20
TAKEN = ("versions", "facts", "facts overwritten", "events")


class Fault(Word):
    """Why a line was refused; no line means the file as a whole."""

    line: int | None
    reason: str

    def sentence(self) -> str:
        return self.reason if self.line is None else f"line {self.line}: {self.reason}"


class Imported(Report):
    """`faulty` counts what was refused; the first of it is told."""

    dry_run: bool
    counts: dict[str, int]
    faulty: int
    faults: tuple[Fault, ...]
    duplicate: str | None = None

    @property
    def is_good(self) -> bool:
        return not self.faulty

    def sentences(self) -> list[str]:
        verb = "would import" if self.dry_run else "imported"
        taken = {what: n for what, n in self.counts.items() if what in TAKEN}
        left = {what: n for what, n in self.counts.items() if what not in TAKEN}
        untold = self.faulty - len(self.faults)
        return [
            f"{verb} {counted(taken) or 'nothing'}",
            *([counted(left)] if left else []),
            *(fault.sentence() for fault in self.faults),
            *([f"and {untold:,} more lines are faulty"] if untold else []),
        ]


def import_(
    engine: Engine,
    file: BinaryIO,
    plan: Plan,
    progress: Progress,
    namespace: str = DEFAULT_NAMESPACE,
) -> Imported:
    """Lands every line that can be taken, and names the others. `file` can be read again.

    A line that landed before is found there and left alone, so an import that was interrupted is
    run again, and one that is run twice changes nothing. By the policy `fail` it begins only if no
    key is in its way. `namespace` is for a file that names none. Raises `Conflict` and `Invalid`.
    """
    source = Source(file, namespace)
    if plan.on_duplicate == "fail" and not plan.dry_run:
        rehearsal = _run(engine, source, replace(plan, dry_run=True), progress)
        if rehearsal.duplicate is not None:
            number = rehearsal.counts["facts kept as they were"]
            raise Conflict(
                f"{number:,} keys hold something else already, {rehearsal.duplicate!r} first;"
                " nothing was imported"
            )
    return _run(engine, source, plan, progress)


def _run(engine: Engine, source: Source, plan: Plan, progress: Progress) -> Imported:
    landing = Landing(engine, plan)
    faults: list[Fault] = []
    for batch in _batches(source, faults, progress):
        if any(isinstance(line, EventLine) for _, line in batch):
            landing.expect_events()
        if plan.dry_run:
            with engine.read() as session:
                faults += _land(landing, session, batch)
        else:
            faults += engine.write(lambda session, batch=batch: _land(landing, session, batch))
    if missing := source.missing():
        faults.append(Fault(line=None, reason=missing))
    return Imported(
        dry_run=plan.dry_run,
        counts=dict(sorted(landing.tally.items())),
        faulty=len(faults),
        faults=tuple(faults[:FAULTS_TOLD]),
        duplicate=landing.duplicate,
    )


def _batches(
    source: Source, faults: list[Fault], progress: Progress
) -> Iterator[list[tuple[int, Landed]]]:
    batch: list[tuple[int, Landed]] = []
    for number, end, line in source:
        progress("imported", end, source.bytes)
        if isinstance(line, Invalid):
            faults.append(Fault(line=number, reason=line.message))
            continue
        batch.append((number, line))
        if len(batch) == LINES_AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch


def _land(landing: Landing, session: Session, batch: list[tuple[int, Landed]]) -> list[Fault]:
    faults: list[Fault] = []
    for number, line in batch:
        try:
            landing.land(session, line)
        except Invalid as error:
            faults.append(Fault(line=number, reason=error.message))
    return faults
