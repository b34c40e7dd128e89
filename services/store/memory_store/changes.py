"""What awaits an embedding: queueing it, leasing it, and taking the vectors in."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from memory_store.contract import Backlog, Change, Invalid, ModelIdentity, SubjectVectors
from memory_store.engine import Embedding, Session
from memory_store.limits import MAX_LEASE_SECONDS
from memory_store.namespaces import NUMBER
from memory_store.rows import OF_KEY

_HAS_A_WORD = re.compile(r"[^\W\d_]{2}")
MAX_ATTEMPTS = 5
COUNTED = 1000
FLOAT_BYTES = 4
# One that would last longer than any may was taken before the clock stepped back.
_FREE = (
    "failed = 0 AND (leased_until IS NULL OR leased_until <= :now"
    f" OR leased_until > :now + {MAX_LEASE_SECONDS * 1000})"
)
_EMBEDDED = (
    "EXISTS (SELECT 1 FROM vector v JOIN model m ON m.id = v.model AND m.in_use = 1"
    " WHERE v.subject = f.id AND v.version = f.version)"
)


def text_to_embed(key: str, value: str) -> str:
    """A key such as `deploy/db-port` says what its value `5432` is about; `D1:3` only blurs it."""
    return f"{key}: {value}" if _HAS_A_WORD.search(key) else value


def enqueue(session: Session, namespace: int, key: str) -> None:
    """Queues a fact for which nothing is queued: new, or forgotten just before."""
    session.later(
        f"INSERT INTO change (subject, version) SELECT f.id, f.version FROM fact f WHERE {OF_KEY}",
        namespace=namespace,
        key=key,
    )


def forget(session: Session, subject: int) -> None:
    """Drops the vectors of a fact whose text is no longer what they were made from, and its change.

    Only its newest version is worth a vector.
    """
    session.later("DELETE FROM vector WHERE subject = :subject", subject=subject)
    session.later("DELETE FROM change WHERE subject = :subject", subject=subject)


@dataclass(frozen=True)
class Model:
    """The row of the model in use."""

    number: int
    identity: str
    dimension: int

    def check(self, argument: str, vector: bytes) -> None:
        if len(vector) != self.dimension * FLOAT_BYTES:
            raise Invalid(
                f"{argument} has {len(vector)} bytes; {self.identity} makes vectors of"
                f" {self.dimension * FLOAT_BYTES}",
                argument=argument,
            )


def model_in_use(session: Session) -> Model | None:
    row = session.one("SELECT id, identity, dimension FROM model WHERE in_use = 1")
    return None if row is None else Model(row["id"], row["identity"], row["dimension"])


def use_model(session: Session, identity: ModelIdentity) -> int:
    session.run("UPDATE model SET in_use = 0 WHERE identity <> :model", model=identity.id)
    session.run(
        "INSERT INTO model (identity, dimension, in_use) VALUES (:model, :dimension, 1)"
        " ON CONFLICT (identity) DO UPDATE SET in_use = 1",
        model=identity.id,
        dimension=identity.dimension,
    )
    session.run(
        "UPDATE change SET failed = 0, attempts = 0, owner = NULL, leased_until = NULL,"
        " reason = NULL WHERE failed = 1"
    )
    session.run(
        "INSERT INTO change (subject, version) SELECT f.id, f.version FROM fact f"
        f" WHERE NOT {_EMBEDDED} AND NOT EXISTS (SELECT 1 FROM change c WHERE c.subject = f.id)"
        " ORDER BY f.id"
    )
    # Going back to a model finds its vectors still there, where no other's came since.
    session.run(f"DELETE FROM change WHERE subject IN (SELECT f.id FROM fact f WHERE {_EMBEDDED})")
    return backlog(session, None).pending


def waiting(session: Session, now: int) -> bool:
    return session.one(f"SELECT 1 AS yes FROM change WHERE {_FREE} LIMIT 1", now=now) is not None


def take(session: Session, owner: str, limit: int, now: int, until: int) -> list[Change]:
    _set_aside_deadly(session, now)
    rows = session.all(
        "UPDATE change SET attempts = attempts + CASE WHEN owner IS NULL THEN 0 ELSE 1 END,"
        " owner = :owner, leased_until = :until"
        f" WHERE sequence IN (SELECT sequence FROM change WHERE {_FREE}"
        " ORDER BY sequence LIMIT :limit) RETURNING sequence, subject, version",
        owner=owner,
        until=until,
        now=now,
        limit=limit,
    )
    return [
        Change(
            sequence=row["sequence"],
            subject=row["subject"],
            version=row["version"],
            text=_text(session, row["subject"], row["version"]),
        )
        for row in sorted(rows, key=lambda row: row["sequence"])
    ]


def _set_aside_deadly(session: Session, now: int) -> None:
    session.run(
        "UPDATE change SET failed = 1, owner = NULL, leased_until = NULL,"
        " reason = 'every worker that took it stopped before it was done'"
        f" WHERE {_FREE} AND owner IS NOT NULL AND attempts >= :most",
        now=now,
        most=MAX_ATTEMPTS - 1,
    )


def _text(session: Session, subject: int, version: int) -> str:
    row = session.one(
        "SELECT v.key, v.value FROM fact f JOIN fact_version v ON v.namespace_id = f.namespace_id"
        " AND v.key = f.key AND v.version = :version WHERE f.id = :subject",
        subject=subject,
        version=version,
    )
    return "" if row is None else text_to_embed(row["key"], row["value"])


def fail(session: Session, owner: str, sequence: int, reason: str) -> None:
    session.run(
        "UPDATE change SET owner = NULL, leased_until = NULL, reason = :reason,"
        " attempts = attempts + 1, failed = CASE WHEN attempts + 1 >= :most THEN 1 ELSE 0 END"
        " WHERE sequence = :sequence AND owner = :owner",
        owner=owner,
        sequence=sequence,
        reason=reason,
        most=MAX_ATTEMPTS,
    )


def release(session: Session, owner: str) -> int:
    return session.run(
        "UPDATE change SET owner = NULL, leased_until = NULL WHERE owner = :owner", owner=owner
    )


def put_vectors(session: Session, model: Model, vectors: Sequence[SubjectVectors]) -> int:
    for subject in vectors:
        if not subject.windows:
            raise Invalid("windows is empty; every text has at least one", argument="windows")
        for window in subject.windows:
            model.check("windows", window)
    # In one order for everybody: each keeps its facts from being written until the end.
    in_order = sorted(vectors, key=lambda each: each.subject)
    return sum(_put(session, model.number, subject) for subject in in_order)


def _put(session: Session, model: int, vectors: SubjectVectors) -> bool:
    # An update that changes nothing: whoever writes the fact meanwhile waits for its end.
    is_current = session.run(
        "UPDATE fact SET version = version WHERE id = :subject AND version = :version",
        subject=vectors.subject,
        version=vectors.version,
    )
    if not is_current:
        return False
    forget(session, vectors.subject)
    for piece, embedding in enumerate(vectors.windows):
        session.later(
            "INSERT INTO vector (subject, model, piece, version, embedding)"
            " VALUES (:subject, :model, :piece, :version, :embedding)",
            subject=vectors.subject,
            model=model,
            piece=piece,
            version=vectors.version,
            embedding=Embedding(embedding),
        )
    return True


def count_pending(session: Session, namespace: int) -> int:
    """Counts no further than `COUNTED`: a search has no time for a long backlog."""
    row = session.one(
        "SELECT count(*) AS n FROM (SELECT c.sequence FROM change c JOIN fact f ON f.id = c.subject"
        " WHERE c.failed = 0 AND f.namespace_id = :namespace LIMIT :most) AS waiting",
        namespace=namespace,
        most=COUNTED,
    )
    return int(row["n"]) if row else 0


def backlog(session: Session, namespace: str | None) -> Backlog:
    of = "" if namespace is None else f" WHERE f.namespace_id = {NUMBER}"
    row = session.one(
        "SELECT count(*) - coalesce(sum(c.failed), 0) AS pending,"
        " coalesce(sum(c.failed), 0) AS failed,"
        " max(CASE WHEN c.failed = 1 THEN c.reason END) AS failure"
        f" FROM change c JOIN fact f ON f.id = c.subject{of}",
        namespace=namespace,
    )
    return Backlog(**row) if row else Backlog(pending=0, failed=0)
