"""Facts: writing them under conditions, reading them as they are and as they were."""

import json
from dataclasses import dataclass

from memory_store import changes, events, namespaces
from memory_store.contract import (
    Caller,
    Conflict,
    EventKind,
    Fact,
    FactPage,
    FactWrite,
    NotFound,
    iso,
)
from memory_store.cursors import Cursor
from memory_store.engine import Answering, Engine, Question, Row, Session, Shared
from memory_store.events import Entry
from memory_store.namespaces import NUMBER
from memory_store.rows import FACT, OF_KEY, PRESENT, fact_from, matching, to_json
from memory_store.words import index_words

MAX_VERSION = 2**63 - 1
"""What a database's integers hold."""
_VERSION = (
    f"SELECT NULL AS id, {FACT}, NULL AS failed, v.removed_at FROM fact_version v"
    " JOIN namespace n ON n.id = v.namespace_id"
)


_STANDING = (
    f"SELECT n.id AS number, f.id, {FACT}, c.failed, (SELECT coalesce(max(w.version), 0)"
    " FROM fact_version w WHERE w.namespace_id = n.id AND w.key = :key) AS newest"
    " FROM namespace n LEFT JOIN fact f ON f.namespace_id = n.id AND f.key = :key"
    " LEFT JOIN fact_version v"
    " ON v.namespace_id = f.namespace_id AND v.key = f.key AND v.version = f.version"
    " LEFT JOIN change c ON c.subject = f.id WHERE n.name = :namespace"
)


@dataclass(frozen=True)
class Writing:
    """A write in progress: its transaction, the lexical index, who writes and when."""

    session: Session
    engine: Engine
    caller: Caller
    now: int


@dataclass(frozen=True)
class Standing:
    """What a write finds: its namespace's number if there is one, what the key holds, the newest
    version that it ever had."""

    namespace: str
    key: str
    number: int | None
    current: Row | None
    newest: int


@dataclass(frozen=True)
class Content:
    value: str
    tags: tuple[str, ...]
    metadata: str
    expires_at: int | None


def locks(namespace: str, key: str) -> tuple[str, ...]:
    """The names of what a write to the key decides by."""
    return (Shared(namespaces.lock(namespace)), f"fact {namespace!r} {key!r}")


def standing(namespace: str, key: str) -> Question:
    """What a write to the key asks first."""
    return Question(_STANDING, {"namespace": namespace, "key": key})


def present(session: Answering, namespace: str, key: str) -> Row | None:
    """Returns what the key holds, expired or not."""
    return session.one(
        f"{PRESENT} WHERE f.namespace_id = {NUMBER} AND f.key = :key", namespace=namespace, key=key
    )


def is_expired(row: Row, now: int) -> bool:
    return row["expires_at"] is not None and row["expires_at"] <= now


def get(session: Answering, namespace: str, key: str, now: int) -> Fact | None:
    row = present(session, namespace, key)
    return None if row is None or is_expired(row, now) else fact_from(row)


def get_version(session: Answering, namespace: str, key: str, version: int) -> Fact | None:
    row = _version(session, namespace, key, version)
    return None if row is None else fact_from(row, present=False)


def get_at(session: Answering, namespace: str, key: str, at: int) -> Fact | None:
    """Returns what the key held at a time: the newest version of then, unless it had gone."""
    row = session.one(
        f"{_VERSION} WHERE v.namespace_id = {NUMBER} AND v.key = :key AND v.written_at <= :at"
        " ORDER BY v.version DESC LIMIT 1",
        namespace=namespace,
        key=key,
        at=at,
    )
    if row is None or is_expired(row, at):
        return None
    if row["removed_at"] is not None and row["removed_at"] <= at:
        return None
    return fact_from(row, present=False)


def page(
    session: Session,
    namespace: str,
    prefix: str,
    tags: tuple[str, ...],
    limit: int,
    cursor: str | None,
    now: int,
) -> FactPage:
    place = Cursor("fact_list", namespace, prefix, tags)
    where = matching(namespace, prefix, tags, now)
    conditions, parameters = where.sql, dict(where.parameters)
    if cursor is not None:
        conditions += " AND f.key > :after"
        parameters["after"] = place.read(cursor, str)
    rows = session.all(
        f"{PRESENT} WHERE {conditions} ORDER BY f.key LIMIT :limit",
        **parameters,
        limit=limit + 1,
    )
    facts = tuple(fact_from(row) for row in rows[:limit])
    return FactPage(
        facts=facts, next_cursor=place.write(facts[-1].key) if len(rows) > limit else None
    )


def put(writing: Writing, write: FactWrite) -> Fact | Conflict:
    """Stores the write as the key's next version, or records why not and returns the conflict."""
    found = _living(writing, write.namespace, write.key)
    if refusal := _refusal(write, found.current):
        return _conflict(writing, write, found, refusal)
    expires_at = (
        None if write.ttl_seconds is None else writing.now + max(1, round(write.ttl_seconds * 1000))
    )
    tags = write.tags
    content = Content(
        value=write.value,
        tags=_tags_of(found.current) if tags is None else tuple(dict.fromkeys(tags)),
        metadata=_metadata_of(found.current) if write.metadata is None else to_json(write.metadata),
        expires_at=expires_at,
    )
    return _store(writing, found, content, "set", {})


def remove(
    writing: Writing, namespace: str, key: str, expected_version: int | None
) -> Fact | Conflict:
    found = _living(writing, namespace, key)
    current = found.current
    if current is None:
        raise NotFound(f"there is no fact under {key!r} in namespace {namespace!r}", argument="key")
    if expected_version is not None and current["version"] != expected_version:
        write = FactWrite(namespace=namespace, key=key, value="", expected_version=expected_version)
        return _conflict(writing, write, found, _version_refusal(write, current), of="delete")
    fact = fact_from(current)
    _take_away(writing, current, "delete", writing.now)
    return fact


def restore(writing: Writing, namespace: str, key: str, version: int) -> Fact:
    old = _version(writing.session, namespace, key, version)
    if old is None:
        raise NotFound(
            f"{key!r} in namespace {namespace!r} has no version {version}", argument="version"
        )
    found = _living(writing, namespace, key)
    content = Content(
        value=old["value"], tags=_tags_of(old), metadata=old["metadata"], expires_at=None
    )
    return _store(writing, found, content, "restore", {"restored_version": version})


def remove_all(writing: Writing, namespace: str, expected: int) -> int:
    """Removes every fact of a namespace, each with its event. Raises `NotFound`, `Conflict`."""
    namespaces.existing(writing.session, namespace)
    rows = writing.session.all(
        f"{PRESENT} WHERE f.namespace_id = {NUMBER} ORDER BY f.key", namespace=namespace
    )
    living = [row for row in rows if not is_expired(row, writing.now)]
    if len(living) != expected:
        raise Conflict(
            f"namespace {namespace!r} holds {len(living):,} facts, not {expected:,};"
            " nothing was deleted",
            argument="expected_facts",
        )
    for row in living:
        _take_away(writing, row, "delete", writing.now)
    return len(living)


def expire(writing: Writing, limit: int) -> int:
    """Removes up to `limit` expired facts, each with its event; returns how many."""
    rows = writing.session.all(
        f"{PRESENT} WHERE f.expires_at <= :now ORDER BY f.expires_at LIMIT :limit",
        now=writing.now,
        limit=limit,
    )
    for row in rows:
        _take_away(writing, row, "expire", row["expires_at"])
    return len(rows)


def any_expired(session: Session, now: int) -> bool:
    return (
        session.one("SELECT 1 AS yes FROM fact WHERE expires_at <= :now LIMIT 1", now=now)
        is not None
    )


def _version(session: Answering, namespace: str, key: str, version: int) -> Row | None:
    if not 0 < version <= MAX_VERSION:
        return None
    return session.one(
        f"{_VERSION} WHERE v.namespace_id = {NUMBER} AND v.key = :key AND v.version = :version",
        namespace=namespace,
        key=key,
        version=version,
    )


def _living(writing: Writing, namespace: str, key: str) -> Standing:
    """Returns what the key holds; an expired fact that is still there is removed first."""
    asked = standing(namespace, key)
    row = writing.session.one(asked.sql, **asked.parameters)
    if row is None:
        return Standing(namespace, key, number=None, current=None, newest=0)
    current = None if row["id"] is None else row
    if current is not None and is_expired(current, writing.now):
        _take_away(writing, current, "expire", current["expires_at"])
        current = None
    return Standing(namespace, key, row["number"], current, row["newest"])


def _tags_of(row: Row | None) -> tuple[str, ...]:
    return () if row is None else tuple(json.loads(row["tags"]))


def _metadata_of(row: Row | None) -> str:
    return "{}" if row is None else str(row["metadata"])


def _refusal(write: FactWrite, current: Row | None) -> str | None:
    """Returns why the write's condition does not hold, None if it does."""
    if write.require_absent or write.expected_version == 0:
        return None if current is None else f"{write.key!r} exists already"
    if write.expected_version is not None:
        return _version_refusal(write, current)
    if write.expected_value is not None:
        if current is None:
            return f"{write.key!r} is absent; a value was expected"
        if current["value"] != write.expected_value:
            return f"{write.key!r} has another value than the expected one"
    return None


def _version_refusal(write: FactWrite, current: Row | None) -> str | None:
    if current is None:
        return f"{write.key!r} is absent; version {write.expected_version} was expected"
    if current["version"] == write.expected_version:
        return None
    return f"{write.key!r} has version {current['version']}, not {write.expected_version}"


def _conflict(
    writing: Writing, write: FactWrite, found: Standing, refusal: str | None, of: str = "set"
) -> Conflict:
    winner = None if found.current is None else fact_from(found.current)
    version = None if winner is None else winner.version
    events.append(
        writing.session,
        Entry(
            at=writing.now,
            namespace=write.namespace,
            kind="conflict",
            caller=writing.caller,
            key=write.key,
            version=version,
            version_before=version,
            body=write.value if of == "set" else None,
            detail={"refused": of, **_condition(write)},
            number=found.number,
        ),
    )
    by = (
        ""
        if winner is None
        else f" (written by {winner.source_client} at {iso(winner.updated_at)})"
    )
    return Conflict(f"{refusal}{by}; nothing was written", argument="key", current=winner)


def _condition(write: FactWrite) -> dict[str, object]:
    return write.model_dump(
        include={"expected_value", "expected_version", "require_absent"},
        exclude_defaults=True,
    )


def _store(
    writing: Writing,
    found: Standing,
    content: Content,
    kind: EventKind,
    detail: dict[str, object],
) -> Fact:
    session, key, current = writing.session, found.key, found.current
    number = found.number or namespaces.ensure(session, found.namespace)
    version = found.newest + 1
    # A clock that stepped back must not let an older version look like the newer one.
    at = writing.now if current is None else max(writing.now, current["written_at"])
    columns: dict[str, object] = {
        "key": key,
        "version": version,
        "value": content.value,
        "tags": to_json(content.tags),
        "metadata": content.metadata,
        "expires_at": content.expires_at,
        "created_at": at if current is None else current["created_at"],
        "written_at": at,
        "removed_at": None,
        "source_client": writing.caller.source_client,
        "principal": writing.caller.principal,
        "self_reported": int(writing.caller.self_reported),
    }
    insert_version(session, number=number, **columns)
    point(writing, number, key, current, content, version)
    events.append(
        session,
        Entry(
            at=at,
            namespace=found.namespace,
            kind=kind,
            caller=writing.caller,
            key=key,
            version=version,
            version_before=None if current is None else current["version"],
            version_after=version,
            detail=detail,
            number=number,
        ),
    )
    # As it would be read back, its change queued and not failed.
    return fact_from(columns | {"namespace": found.namespace, "failed": 0})


def insert_version(session: Session, **columns: object) -> None:
    """`number` is the namespace's; the other columns go by their names."""
    session.later(
        "INSERT INTO fact_version (namespace_id, key, version, value, tags, metadata, expires_at,"
        " created_at, written_at, removed_at, source_client, principal, self_reported)"
        " VALUES (:number, :key, :version, :value, :tags, :metadata, :expires_at,"
        " :created_at, :written_at, :removed_at, :source_client, :principal, :self_reported)",
        **columns,
    )


def point(
    writing: Writing,
    namespace: int,
    key: str,
    current: Row | None,
    content: Content,
    version: int,
) -> None:
    """Makes the version the present one, in the table of facts and in what is derived from it."""
    session = writing.session
    session.later(
        "INSERT INTO fact (namespace_id, key, version, expires_at)"
        " VALUES (:namespace, :key, :version, :expires_at)"
        " ON CONFLICT (namespace_id, key) DO UPDATE SET version = excluded.version,"
        " expires_at = excluded.expires_at",
        namespace=namespace,
        key=key,
        version=version,
        expires_at=content.expires_at,
    )
    if current is not None:
        _unindex(writing, current)
        changes.forget(session, current["id"])
    words = index_words(key, content.value, *content.tags)
    writing.engine.text.put(session, namespace, key, words)
    for tag in content.tags:
        session.later(
            f"INSERT INTO fact_tag (tag, fact_id) SELECT :tag, f.id FROM fact f WHERE {OF_KEY}",
            tag=tag,
            namespace=namespace,
            key=key,
        )
    changes.enqueue(session, namespace, key)


def _unindex(writing: Writing, current: Row) -> None:
    tags = _tags_of(current)
    writing.engine.text.remove(
        writing.session,
        current["id"],
        current["namespace_id"],
        index_words(current["key"], current["value"], *tags),
    )
    writing.session.later("DELETE FROM fact_tag WHERE fact_id = :fact", fact=current["id"])


def _take_away(writing: Writing, current: Row, kind: EventKind, at: int) -> None:
    session = writing.session
    _unindex(writing, current)
    changes.forget(session, current["id"])
    session.later(
        "UPDATE fact_version SET removed_at = :at WHERE namespace_id = :namespace AND key = :key"
        " AND version = :version",
        at=max(at, current["written_at"]),
        namespace=current["namespace_id"],
        key=current["key"],
        version=current["version"],
    )
    session.later("DELETE FROM fact WHERE id = :fact", fact=current["id"])
    events.append(
        session,
        Entry(
            at=writing.now,
            namespace=current["namespace"],
            kind=kind,
            caller=writing.caller,
            key=current["key"],
            version=current["version"],
            version_before=current["version"],
            number=current["namespace_id"],
        ),
    )


def last_version(session: Session, namespace: int, key: str) -> int:
    row = session.one(
        "SELECT coalesce(max(version), 0) AS version FROM fact_version"
        " WHERE namespace_id = :namespace AND key = :key",
        namespace=namespace,
        key=key,
    )
    return int(row["version"]) if row else 0
