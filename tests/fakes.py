"""Deterministic stand-ins for what is slow, large or has a will of its own."""

import hashlib
import math
import re
import threading
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from memory_embedder.contract import EmbedderUnavailable
from memory_store.contract import Change, ModelIdentity, SubjectVectors, Token

DIMENSION = 384


@dataclass
class FakeEmbedder:
    """A hashed bag of words: texts that share words are near each other, and no others.

    It fails on a text that contains `fails_on`, is unavailable while `unavailable` has a sentence,
    and waits for `gate` before it embeds. `embedded` lists what it was asked for.
    """

    name: str = "fake"
    window_words: int = 50
    overlap_words: int = 10
    fails_on: str | None = None
    unavailable: str | None = None
    gate: threading.Event | None = None
    embedded: list[str] = field(default_factory=list)

    @property
    def identity(self) -> ModelIdentity:
        digest = hashlib.sha256(self.name.encode()).hexdigest()
        return ModelIdentity(name=self.name, digest=digest, dimension=DIMENSION)

    def windows(self, text: str) -> list[str]:
        starts = [word.start() for word in re.finditer(r"\S+", text)] or [0]
        starts[0] = 0
        step = self.window_words - self.overlap_words
        firsts = range(0, max(1, len(starts) - self.overlap_words), step)
        ends = [*starts, *([len(text)] * self.window_words)]
        return [text[starts[first] : ends[first + self.window_words]] for first in firsts]

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        if self.gate is not None:
            self.gate.wait(timeout=30)
        if self.unavailable is not None:
            raise EmbedderUnavailable(self.unavailable)
        self.embedded.extend(texts)
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> bytes:
        if self.fails_on is not None and self.fails_on in text:
            raise ValueError(f"a text with {self.fails_on} cannot be embedded")
        counts = [0.0] * DIMENSION
        for word in re.findall(r"\w+", text.casefold()) or [""]:
            counts[_bucket(word)] += 1.0
        length = math.hypot(*counts)
        return array("f", [count / length for count in counts]).tobytes()


def _bucket(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest()) % DIMENSION


@dataclass
class FakeTokenStore:
    """Knows the tokens of `known` by their digests, answers through `gate` when there is one, and
    raises `trouble`. `asked` lists the digests that it was asked for."""

    known: dict[str, Token] = field(default_factory=dict)
    gate: threading.Event | None = None
    trouble: Exception | None = None
    asked: list[str] = field(default_factory=list)

    def token_verify(self, digest: str) -> Token | None:
        self.asked.append(digest)
        if self.gate is not None:
            self.gate.wait(timeout=30)
        if self.trouble is not None:
            raise self.trouble
        return self.known.get(digest)


class FakeClock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class _Waiting:
    change: Change
    owner: str | None = None
    leased_until: float = 0.0
    tries: int = 0


class FakeChanges:
    """The methods of a store that an embedder calls, in memory, without a fact around them.

    `raises` is raised, once, by the next call. `uses` lists the identities that were announced.
    """

    def __init__(self, clock: FakeClock | None = None) -> None:
        self.vectors: dict[int, SubjectVectors] = {}
        self.failed: dict[int, str] = {}
        self.uses: list[ModelIdentity] = []
        self.takes = 0
        self.raises: Exception | None = None
        self._clock = clock or FakeClock()
        self._lock = threading.RLock()
        self._versions: dict[int, int] = {}
        self._waiting: dict[int, _Waiting] = {}
        self._sequence = 0

    def write(self, subject: int, text: str) -> Change:
        """Writes the subject's next version, whose embedding replaces what was awaited."""
        with self._lock:
            self._sequence += 1
            version = self._versions.get(subject, 0) + 1
            self._versions[subject] = version
            change = Change(sequence=self._sequence, subject=subject, version=version, text=text)
            self._waiting[subject] = _Waiting(change)
            return change

    @property
    def pending(self) -> list[int]:
        with self._lock:
            return sorted(set(self._waiting) - set(self.failed))

    def model_use(self, identity: ModelIdentity) -> int:
        with self._lock:
            self._raise()
            self.uses.append(identity)
            return len(self._waiting)

    def change_take(
        self, owner: str, model: str, limit: int = 32, lease_seconds: float = 30.0
    ) -> list[Change]:
        with self._lock:
            self._raise()
            self.takes += 1
            if self.uses and self.uses[-1].id != model:
                return []
            taken = self._free()[:limit]
            for waiting in taken:
                waiting.owner = owner
                waiting.leased_until = self._clock() + lease_seconds
            return [waiting.change for waiting in taken]

    def change_fail(self, owner: str, sequence: int, reason: str) -> None:
        with self._lock:
            self._raise()
            for subject, waiting in self._waiting.items():
                if waiting.change.sequence == sequence and waiting.owner == owner:
                    waiting.owner = None
                    waiting.tries += 1
                    if waiting.tries == 5:
                        self.failed[subject] = reason

    def change_release(self, owner: str) -> int:
        with self._lock:
            self._raise()
            held = [waiting for waiting in self._waiting.values() if waiting.owner == owner]
            for waiting in held:
                waiting.owner = None
            return len(held)

    def vector_put(self, owner: str, model: str, vectors: Sequence[SubjectVectors]) -> int:
        del owner, model
        with self._lock:
            self._raise()
            current = [put for put in vectors if put.version == self._versions[put.subject]]
            for put in current:
                self.vectors[put.subject] = put
                del self._waiting[put.subject]
            return len(current)

    def _free(self) -> list[_Waiting]:
        now = self._clock()
        free = [
            waiting
            for subject, waiting in self._waiting.items()
            if subject not in self.failed and (waiting.owner is None or waiting.leased_until <= now)
        ]
        return sorted(free, key=lambda waiting: waiting.change.sequence)

    def _raise(self) -> None:
        error, self.raises = self.raises, None
        if error is not None:
            raise error


class FailingStore:
    """Fails at everything, with the error that it is given."""

    def __init__(self, error):
        self._error = error

    def __getattr__(self, name):
        def fail(*_arguments):
            raise self._error

        return fail
