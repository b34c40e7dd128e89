"""Export: every fact with all its versions, and the trail, as JSON Lines."""

from collections.abc import Iterator
from typing import BinaryIO

from memory_store.clock import Clock, moment
from memory_store.contract import Word
from memory_store.engine import Engine, Session
from memory_store.operations import reading
from memory_store.operations.lines import Header
from memory_store.operations.progress import Progress
from memory_store.operations.report import Report, counted


class Exported(Report):
    counts: dict[str, int]

    def sentences(self) -> list[str]:
        return [f"exported {counted({f'{kind}s': n for kind, n in self.counts.items()})}"]


def export(engine: Engine, out: BinaryIO, clock: Clock, progress: Progress) -> Exported:
    """Writes the store as it is at the start, whatever is written meanwhile, line by line."""
    with engine.read() as session:
        header = Header(exported_at=moment(clock()), counts=reading.counts(session))
        total = sum(header.counts.values())
        for done, line in enumerate(_lines(session, header)):
            out.write(text_of(line))
            progress("exported", done, total)
    return Exported(counts=header.counts)


def text_of(line: Word) -> bytes:
    return line.model_dump_json().encode() + b"\n"


def _lines(session: Session, header: Header) -> Iterator[Word]:
    yield header
    yield from reading.every_namespace(session)
    yield from reading.every_version(session)
    yield from reading.every_event(session)
