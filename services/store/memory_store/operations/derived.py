"""Each fact against what is derived from it: its words in the index, the table of its tags."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from memory_store.engine import Engine, Row, Session
from memory_store.fingerprints import fingerprint
from memory_store.operations.progress import Progress
from memory_store.operations.reading import count, paged
from memory_store.rows import PRESENT, fact_from
from memory_store.words import index_words

AT_ONCE = 500


@runtime_checkable
class ReadableIndex(Protocol):
    """A lexical index that can say what it holds."""

    def fingerprints(self, session: Session) -> dict[int, int]:
        """Returns for each fact in the index the fingerprint of its words."""
        ...


@dataclass
class Drift:
    """Facts by their ids, and keys for people."""

    unindexed: dict[int, str] = field(default_factory=dict[int, str])
    misindexed: dict[int, str] = field(default_factory=dict[int, str])
    phantoms: list[int] = field(default_factory=list[int])
    mistagged: dict[int, str] = field(default_factory=dict[int, str])


def compare(engine: Engine, session: Session, progress: Progress) -> Drift:
    drift = Drift()
    index = engine.text
    held = index.fingerprints(session) if isinstance(index, ReadableIndex) else None
    total = count(session, "fact")
    for done, row in enumerate(_facts(session)):
        progress("compared with the index", done, total)
        if set(json.loads(row["tags"])) != _tags(session, row["id"]):
            drift.mistagged[row["id"]] = row["key"]
        if held is not None:
            _compare_words(row, held.pop(row["id"], None), drift)
    drift.phantoms = list(held or ())
    return drift


def retag(session: Session, fact: int) -> None:
    """Makes the tags of a fact those of its version, if it is there still."""
    row = session.one(f"{PRESENT} WHERE f.id = :fact", fact=fact)
    session.run("DELETE FROM fact_tag WHERE fact_id = :fact", fact=fact)
    for tag in json.loads(row["tags"]) if row else ():
        session.run("INSERT INTO fact_tag (tag, fact_id) VALUES (:tag, :fact)", tag=tag, fact=fact)


def _compare_words(row: Row, held: int | None, drift: Drift) -> None:
    fact = fact_from(row)
    if held is None:
        drift.unindexed[row["id"]] = fact.key
    elif held != fingerprint(index_words(fact.key, fact.value, *fact.tags)):
        drift.misindexed[row["id"]] = fact.key


def _tags(session: Session, fact: int) -> set[str]:
    rows = session.all("SELECT tag FROM fact_tag WHERE fact_id = :fact", fact=fact)
    return {row["tag"] for row in rows}


def _facts(session: Session) -> Iterator[Row]:
    def some(last: Row | None) -> list[Row]:
        after = last["id"] if last else 0
        return session.all(
            f"{PRESENT} WHERE f.id > :after ORDER BY f.id LIMIT :limit", after=after, limit=AT_ONCE
        )

    return paged(some)
