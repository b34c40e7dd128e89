"""Import: an export, or the reference server's file, line by line into a store."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
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
    faults: dict[int, str] = {}
    for land in (landing.land_history, landing.land_present):
        for batch in _batches(source, faults, progress):
            if any(isinstance(line, EventLine) for line in batch.values()):
                landing.expect_events()
            land_batch = partial(_land, land, batch)
            if plan.dry_run:
                with engine.read() as session:
                    faults |= land_batch(session)
            else:
                faults |= engine.write(land_batch)
    told = [Fault(line=line, reason=faults[line]) for line in sorted(faults)]
    if missing := source.missing():
        told.append(Fault(line=None, reason=missing))
    return Imported(
        dry_run=plan.dry_run,
        counts=dict(sorted(landing.tally.items())),
        faulty=len(told),
        faults=tuple(told[:FAULTS_TOLD]),
        duplicate=landing.duplicate,
    )


def _batches(
    source: Source, faults: dict[int, str], progress: Progress
) -> Iterator[dict[int, Landed]]:
    """Lines by their numbers, without those that were refused before."""
    batch: dict[int, Landed] = {}
    for number, end, line in source:
        progress("read", end, source.bytes)
        if isinstance(line, Invalid):
            faults[number] = line.message
        elif number not in faults:
            batch[number] = line
        if len(batch) == LINES_AT_ONCE:
            yield batch
            batch = {}
    if batch:
        yield batch


def _land(
    land: Callable[[Session, Landed], None], batch: dict[int, Landed], session: Session
) -> dict[int, str]:
    """Returns why lines were refused."""
    refused: dict[int, str] = {}
    for number, line in batch.items():
        try:
            land(session, line)
        except Invalid as error:
            refused[number] = error.message
    return refused
