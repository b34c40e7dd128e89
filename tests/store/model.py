"""The whole contract as a plain program over dictionaries: what a store must answer."""

from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from memory_store.changes import MAX_ATTEMPTS, text_to_embed
from memory_store.clock import moment
from memory_store.contract import Caller, Fact, FactWrite, IndexState
from memory_store.idempotency import KEPT_MS
from store.holders import Clock

_NUMBERS = count()


class Refused(Exception):
    """The store must answer with an error of this code, and with this fact as the winner."""

    def __init__(self, code: str, current: Fact | None = None) -> None:
        super().__init__(code)
        self.code = code
        self.current = current


@dataclass
class Awaited:
    """A fact's version that awaits its vector."""

    sequence: int
    owner: str | None = None
    until: int = 0
    attempts: int = 0
    failed: bool = False


@dataclass
class Version:
    """A version as it was written, and what became of it."""

    fact: Fact
    written_at: int
    expires_at: int | None
    removed_at: int | None = None
    awaited: Awaited | None = None

    def expired(self, now: int) -> bool:
        return self.expires_at is not None and self.expires_at <= now

    @property
    def index(self) -> IndexState:
        if self.awaited is None:
            return "ready"
        return "failed" if self.awaited.failed else "pending"


@dataclass
class History:
    """Everything that a key ever was. An event: its number, kind, version, values."""

    versions: list[Version] = field(default_factory=list)
    lives: bool = False
    events: list[tuple[int, str, int | None, str | None, str | None]] = field(default_factory=list)

    @property
    def current(self) -> Version | None:
        return self.versions[-1] if self.lives else None

    @property
    def fact(self) -> Fact | None:
        version = self.current
        return version and version.fact.model_copy(update={"index": version.index})

    def version(self, number: int) -> Version | None:
        return self.versions[number - 1] if 1 <= number <= len(self.versions) else None

    def at(self, time: int) -> Fact | None:
        written = [version for version in self.versions if version.written_at <= time]
        if not written or written[-1].expired(time):
            return None
        removed = written[-1].removed_at
        return None if removed is not None and removed <= time else written[-1].fact

    def end(self, kind: str, at: int) -> None:
        version = self.versions[-1]
        version.removed_at = max(at, version.written_at)
        version.awaited = None
        self.lives = False
        self.note(kind, len(self.versions), version.fact.value, None)

    def note(self, kind: str, version: int | None, before: str | None, after: str | None) -> None:
        self.events.append((next(_NUMBERS), kind, version, before, after))


class Model:
    """Answers as a store must; raises `Refused` where it must raise."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.spaces: dict[str, dict[str, History]] = {}
        self._answers: dict[tuple[Caller, str], tuple[object, int, Fact | Refused]] = {}
        self._sequence = 0

    def advance(self, seconds: float) -> None:
        """Time passes; what expires leaves its event, as the next write or sweep will write it."""
        self._clock.advance(seconds)
        for history in self._histories():
            version = history.current
            if version is not None and version.expired(self._clock()):
                history.end("expire", version.expires_at or 0)

    def facts(self, namespace: str) -> dict[str, Fact]:
        """What is there now, in the order of the keys."""
        space = self.spaces.get(namespace, {})
        return {key: fact for key in sorted(space) if (fact := space[key].fact) is not None}

    def history(self, namespace: str, key: str) -> History:
        return self.spaces.get(namespace, {}).get(key, History())

    def set(self, caller: Caller, write: FactWrite) -> Fact:
        return self._once(caller, write.idempotency_key, write, lambda: self._set(caller, write))

    def delete(
        self, caller: Caller, namespace: str, key: str, expected: int | None, once: str | None
    ) -> Fact:
        request = ("delete", namespace, key, expected)
        return self._once(caller, once, request, lambda: self._delete(namespace, key, expected))

    def restore(self, caller: Caller, namespace: str, key: str, number: int) -> Fact:
        old = self.history(namespace, key).version(number)
        if old is None:
            raise Refused("not_found")
        write = FactWrite(namespace=namespace, key=key, value=old.fact.value)
        return self._store(
            caller, replace_content(write, old.fact.tags, old.fact.metadata), "restore"
        )

    def rename(self, namespace: str, name: str) -> int:
        if not self._used(namespace):
            raise Refused("not_found")
        if self._used(name):
            raise Refused("conflict")
        asked_in_vain = self.spaces.pop(name, {})
        self.spaces[name] = self.spaces.pop(namespace)
        for history in self.spaces[name].values():
            for version in history.versions:
                version.fact = version.fact.model_copy(update={"namespace": name})
        for key, history in asked_in_vain.items():
            joined = self.spaces[name].setdefault(key, History())
            joined.events = sorted(joined.events + history.events)
        return len(self.facts(name))

    def empty(self, namespace: str, expected: int) -> int:
        if not self._used(namespace):
            raise Refused("not_found")
        keys = self.facts(namespace)
        if len(keys) != expected:
            raise Refused("conflict")
        for key in keys:
            self.spaces[namespace][key].end("delete", self._clock())
        return expected

    def take(self, owner: str, limit: int, seconds: float) -> list[Version]:
        """Leases the changes that are free, oldest first."""
        now = self._clock()
        free = [
            version
            for version in self._awaiting()
            if not version.awaited.failed and version.awaited.until <= now
        ]
        for version in free:
            if version.awaited.owner is not None and version.awaited.attempts >= MAX_ATTEMPTS - 1:
                version.awaited = replace(version.awaited, failed=True, owner=None, until=0)
        taken = [version for version in free if not version.awaited.failed][:limit]
        for version in taken:
            again = version.awaited.owner is not None
            version.awaited = replace(
                version.awaited,
                owner=owner,
                until=now + round(seconds * 1000),
                attempts=version.awaited.attempts + again,
            )
        return taken

    def fail(self, owner: str, version: Version) -> None:
        awaited = version.awaited
        if awaited is not None and awaited.owner == owner:
            attempts = awaited.attempts + 1
            version.awaited = replace(
                awaited, owner=None, until=0, attempts=attempts, failed=attempts >= MAX_ATTEMPTS
            )

    def release(self, owner: str) -> int:
        held = [version for version in self._awaiting() if version.awaited.owner == owner]
        for version in held:
            version.awaited = replace(version.awaited, owner=None, until=0)
        return len(held)

    def put_vectors(self, version: Version) -> bool:
        current = any(history.current is version for history in self._histories())
        if current:
            version.awaited = None
        return current

    def text(self, version: Version) -> str:
        return text_to_embed(version.fact.key, version.fact.value)

    def _used(self, namespace: str) -> bool:
        return any(history.versions for history in self.spaces.get(namespace, {}).values())

    def _histories(self) -> list[History]:
        return [history for space in self.spaces.values() for history in space.values()]

    def _awaiting(self) -> list[Any]:
        current = [history.current for history in self._histories()]
        waiting = [version for version in current if version and version.awaited]
        return sorted(waiting, key=lambda version: version.awaited.sequence)

    def _once(self, caller: Caller, once: str | None, request: object, apply: Any) -> Fact:
        now = self._clock()
        if once is None:
            return apply()
        known = self._answers.get((caller, once))
        if known is not None and known[1] > now - KEPT_MS:
            if known[0] != request:
                raise Refused("idempotency_mismatch")
            answer = known[2]
        else:
            answer = _answer(apply)
            self._answers[caller, once] = (request, now, answer)
        if isinstance(answer, Refused):
            raise answer
        return answer

    def _set(self, caller: Caller, write: FactWrite) -> Fact:
        history = self._space(write.namespace).setdefault(write.key, History())
        current = history.fact
        if not _holds(write, current):
            number = current and current.version
            history.note("conflict", number, current and current.value, write.value)
            raise Refused("conflict", current)
        tags = () if current is None else current.tags
        metadata = {} if current is None else current.metadata
        tags = tags if write.tags is None else tuple(dict.fromkeys(write.tags))
        metadata = metadata if write.metadata is None else write.metadata
        return self._store(caller, replace_content(write, tags, metadata), "set")

    def _delete(self, namespace: str, key: str, expected: int | None) -> Fact:
        history = self.history(namespace, key)
        fact = history.fact
        if fact is None:
            raise Refused("not_found")
        if expected not in (None, fact.version):
            history.note("conflict", fact.version, fact.value, None)
            raise Refused("conflict", fact)
        history.end("delete", self._clock())
        return fact

    def _store(self, caller: Caller, write: FactWrite, kind: str) -> Fact:
        now = self._clock()
        history = self._space(write.namespace).setdefault(write.key, History())
        before = history.fact
        if history.lives:
            history.versions[-1].awaited = None
        expires_at = None if write.ttl_seconds is None else now + round(write.ttl_seconds * 1000)
        number = len(history.versions) + 1
        fact = Fact(
            namespace=write.namespace,
            key=write.key,
            value=write.value,
            version=number,
            tags=write.tags or (),
            metadata=write.metadata or {},
            expires_at=None if expires_at is None else moment(expires_at),
            created_at=moment(now) if before is None else before.created_at,
            updated_at=moment(now),
            source_client=caller.source_client,
            principal=caller.principal,
        )
        self._sequence += 1
        history.versions.append(Version(fact, now, expires_at, awaited=Awaited(self._sequence)))
        history.lives = True
        history.note(kind, number, before and before.value, write.value)
        return fact.model_copy(update={"index": "pending"})

    def _space(self, namespace: str) -> dict[str, History]:
        return self.spaces.setdefault(namespace, {})


def replace_content(write: FactWrite, tags: tuple[str, ...], metadata: dict[str, Any]) -> FactWrite:
    return write.model_copy(update={"tags": tags, "metadata": metadata})


def _answer(apply: Any) -> Fact | Refused:
    """A refusal for a missing fact is no answer to remember, a conflict is."""
    try:
        return apply()
    except Refused as refused:
        if refused.code != "conflict":
            raise
        return refused


def _holds(write: FactWrite, current: Fact | None) -> bool:
    if write.require_absent or write.expected_version == 0:
        return current is None
    if write.expected_version is not None:
        return current is not None and current.version == write.expected_version
    if write.expected_value is not None:
        return current is not None and current.value == write.expected_value
    return True
