"""Check: whether a store agrees with itself, and the repair of what is derived from its facts."""

import json
from datetime import datetime

from memory_store.clock import milliseconds
from memory_store.contract import Internal, Word
from memory_store.engine import Engine, Session
from memory_store.operations import derived
from memory_store.operations.derived import Drift
from memory_store.operations.progress import Progress
from memory_store.operations.reading import events_where
from memory_store.operations.report import Report
from memory_store.operations.rules import RULES
from memory_store.reindex import remake_words

EXAMPLES = 3
INTEGRITY = {"sqlite": "PRAGMA integrity_check(10)"}
"""How a database looks through its own pages, where there is a way."""


class Finding(Word):
    name: str
    count: int
    examples: tuple[str, ...] = ()
    repairable: bool = False


class Checked(Report):
    """`repaired` names the findings that a second look no longer found."""

    findings: tuple[Finding, ...]
    repaired: tuple[str, ...] = ()

    @property
    def is_good(self) -> bool:
        return all(finding.name in self.repaired for finding in self.findings)

    def sentences(self) -> list[str]:
        return [self._sentence(finding) for finding in self.findings] or ["nothing is wrong"]

    def _sentence(self, finding: Finding) -> str:
        examples = ", ".join(finding.examples)
        found = f"{finding.count:,} {finding.name}: {examples}" if examples else finding.name
        if finding.name in self.repaired:
            return f"{found}; repaired"
        return f"{found}; --repair puts it right" if finding.repairable else found


def check(engine: Engine, progress: Progress, *, repair: bool = False) -> Checked:
    """Finds, and repairs if asked, what is derived: the index, tags, vectors, changes.

    Facts, versions and events are never touched.
    """
    findings, drift = _look(engine, progress)
    if not repair or not any(finding.repairable for finding in findings):
        return Checked(findings=tuple(findings))
    _repair(engine, drift)
    left = {finding.name for finding in _look(engine, progress)[0]}
    repaired = tuple(finding.name for finding in findings if finding.name not in left)
    return Checked(
        findings=tuple(finding.model_copy(update={"repairable": False}) for finding in findings),
        repaired=repaired,
    )


def _look(engine: Engine, progress: Progress) -> tuple[list[Finding], Drift]:
    findings: list[Finding] = []
    drift = Drift()
    try:
        with engine.read() as session:
            findings += _integrity(engine, session)
            findings += _broken_rules(session, progress)
            drift = derived.compare(engine, session, progress)
    except Internal as error:
        findings.append(Finding(name=error.message, count=1))
    return findings + _drifted(drift), drift


def _integrity(engine: Engine, session: Session) -> list[Finding]:
    if engine.name not in INTEGRITY:
        return []
    faults = [str(next(iter(row.values()))) for row in session.all(INTEGRITY[engine.name])]
    if faults == ["ok"]:
        return []
    return [Finding(name="damaged pages", count=len(faults), examples=tuple(faults[:EXAMPLES]))]


def _broken_rules(session: Session, progress: Progress) -> list[Finding]:
    horizon = _horizon(session)
    findings: list[Finding] = []
    for done, rule in enumerate(RULES):
        progress("checked", done, len(RULES))
        if count := rule.count(session, horizon):
            findings.append(
                Finding(
                    name=rule.name,
                    count=count,
                    examples=tuple(rule.examples(session, horizon, EXAMPLES)),
                    repairable=rule.repair is not None,
                )
            )
    return findings


def _horizon(session: Session) -> int:
    """Events from before then were archived on purpose."""
    untils = [
        milliseconds(datetime.fromisoformat(json.loads(row["detail"])["until"]))
        for row in events_where(session, "e.kind = 'retain'")
    ]
    return max(untils, default=0)


def _drifted(drift: Drift) -> list[Finding]:
    kinds = {
        "facts missing from the index": list(drift.unindexed.values()),
        "facts with other words in the index": list(drift.misindexed.values()),
        "entries of the index for no fact": [f"entry {fact}" for fact in drift.phantoms],
        "facts with other tags in the table of tags": list(drift.mistagged.values()),
    }
    return [
        Finding(name=name, count=len(found), examples=tuple(found[:EXAMPLES]), repairable=True)
        for name, found in kinds.items()
        if found
    ]


def _repair(engine: Engine, drift: Drift) -> None:
    # All of them: what one takes away another may have to make anew.
    for rule in RULES:
        if rule.repair is not None:
            engine.write(lambda session, sql=rule.repair: session.run(sql))
    for fact in drift.mistagged:
        engine.write(lambda session, fact=fact: derived.retag(session, fact))
    if drift.unindexed or drift.misindexed or drift.phantoms:
        remake_words(engine)
