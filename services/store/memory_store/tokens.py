"""Per-client tokens: made, rotated, revoked and recognised by the SHA-256 of their secrets."""

import hashlib
import json
import secrets
import threading

from memory_store import events
from memory_store.clock import milliseconds, moment
from memory_store.contract import Conflict, NewToken, NotFound, Token, TokenGrant
from memory_store.engine import Answering, Row, Session
from memory_store.events import Entry
from memory_store.facts import Writing
from memory_store.rows import to_json

PREFIX = "mb_"
"""So that people, and scanners of leaked secrets, know what they are looking at."""
SECRET_BYTES = 32


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def create(writing: Writing, grant: TokenGrant) -> NewToken:
    session = writing.session
    if _find(session, grant.name) is not None:
        raise Conflict(
            f"the name {grant.name!r} was given to a token before; choose another, since the"
            " trail speaks of that one",
            argument="name",
        )
    session.run(
        "INSERT INTO token (name, scopes, namespaces, created_at, created_by, expires_at)"
        " VALUES (:name, :scopes, :namespaces, :now, :by, :expires_at)",
        name=grant.name,
        scopes=to_json(grant.scopes),
        namespaces=None if grant.namespaces is None else to_json(grant.namespaces),
        now=writing.now,
        by=writing.caller.source_client,
        expires_at=None if grant.expires_at is None else milliseconds(grant.expires_at),
    )
    return _with_secret(writing, grant.name, "create")


def rotate(writing: Writing, name: str, overlap_seconds: float) -> NewToken:
    if not _is_in_force(_find(writing.session, name), writing.now):
        raise NotFound(f"there is no token {name!r} that is in force", argument="name")
    writing.session.run(
        "UPDATE token_secret SET expires_at = :ends"
        " WHERE token = :name AND (expires_at IS NULL OR expires_at > :ends)",
        name=name,
        ends=writing.now + round(overlap_seconds * 1000),
    )
    # A secret that ended goes, lest a clock that steps back makes it good again.
    writing.session.run(
        "DELETE FROM token_secret WHERE token = :name AND expires_at <= :now",
        name=name,
        now=writing.now,
    )
    return _with_secret(writing, name, "rotate")


def revoke(writing: Writing, name: str) -> Token:
    session = writing.session
    token = _find(session, name)
    if token is None:
        raise NotFound(f"there is no token {name!r}", argument="name")
    if token["revoked_at"] is not None:
        return _token_from(token)
    session.run("UPDATE token SET revoked_at = :now WHERE name = :name", now=writing.now, name=name)
    session.run("DELETE FROM token_secret WHERE token = :name", name=name)
    _note(writing, name, "revoke")
    return _known(session, name)


def every(session: Session) -> list[Token]:
    return [_token_from(row) for row in session.all("SELECT * FROM token ORDER BY name")]


def verify(session: Answering, digest: str, now: int) -> Token | None:
    row = session.one(
        "SELECT t.* FROM token_secret s JOIN token t ON t.name = s.token"
        " WHERE s.digest = :digest AND (s.expires_at IS NULL OR s.expires_at > :now)"
        " AND (t.expires_at IS NULL OR t.expires_at > :now) AND t.revoked_at IS NULL",
        digest=digest,
        now=now,
    )
    return None if row is None else _token_from(row)


class Uses:
    """When tokens were last used, until the upkeep writes it down: verifying never writes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[str, int] = {}

    def note(self, name: str, at: int) -> None:
        with self._lock:
            self._last[name] = at

    def take(self) -> dict[str, int]:
        with self._lock:
            taken, self._last = self._last, {}
            return taken

    def put_back(self, taken: dict[str, int]) -> None:
        with self._lock:
            self._last = taken | self._last


def write_uses(session: Session, last: dict[str, int]) -> None:
    for name, at in last.items():
        session.run(
            "UPDATE token SET last_used_at = :at"
            " WHERE name = :name AND (last_used_at IS NULL OR last_used_at < :at)",
            name=name,
            at=at,
        )


def _with_secret(writing: Writing, name: str, action: str) -> NewToken:
    secret = PREFIX + secrets.token_urlsafe(SECRET_BYTES)
    writing.session.run(
        "INSERT INTO token_secret (digest, token) VALUES (:digest, :name)",
        digest=digest_of(secret),
        name=name,
    )
    _note(writing, name, action)
    return NewToken(token=_known(writing.session, name), secret=secret)


def _note(writing: Writing, name: str, action: str) -> None:
    detail = {"action": action, "name": name}
    events.append(
        writing.session,
        Entry(at=writing.now, namespace=None, kind="token", caller=writing.caller, detail=detail),
    )


def _is_in_force(token: Row | None, now: int) -> bool:
    if token is None or token["revoked_at"] is not None:
        return False
    return token["expires_at"] is None or token["expires_at"] > now


def _find(session: Session, name: str) -> Row | None:
    return session.one("SELECT * FROM token WHERE name = :name", name=name)


def _known(session: Session, name: str) -> Token:
    row = _find(session, name)
    if row is None:
        raise AssertionError("a token that was just written is there")
    return _token_from(row)


def _token_from(row: Row) -> Token:
    return Token(
        name=row["name"],
        scopes=tuple(json.loads(row["scopes"])),
        namespaces=None if row["namespaces"] is None else tuple(json.loads(row["namespaces"])),
        created_at=moment(row["created_at"]),
        created_by=row["created_by"],
        expires_at=None if row["expires_at"] is None else moment(row["expires_at"]),
        last_used_at=None if row["last_used_at"] is None else moment(row["last_used_at"]),
        revoked_at=None if row["revoked_at"] is None else moment(row["revoked_at"]),
    )
