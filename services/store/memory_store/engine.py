"""What a database must offer: transactions over shared SQL, and the few things that differ."""

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

Row = Mapping[str, Any]
Result = TypeVar("Result")


class Embedding(bytes):
    """A vector on its way into the database or a query: little-endian float32.

    It comes out of the column as plain bytes.
    """


class Shared(str):
    """A lock's name that many may hold at once, though not beside one who has it as a plain one."""

    __slots__ = ()


class Answering(Protocol):
    """A session, or an engine where one question is all that there is to ask."""

    def one(self, sql: str, /, **parameters: object) -> Row | None: ...


class Session(Answering, Protocol):
    """One transaction. SQL takes `:name` parameters and is the same for every database."""

    def all(self, sql: str, /, **parameters: object) -> list[Row]: ...

    def run(self, sql: str, /, **parameters: object) -> int:
        """Returns how many rows were changed."""
        ...

    def later(self, sql: str, /, **parameters: object) -> None:
        """Runs it before whatever is asked next, at the latest before the commit.

        What it fails with is raised then. A database that is far away takes many in one go.
        """
        ...


@dataclass(frozen=True)
class Question:
    """What will be asked by `Session.one`."""

    sql: str
    parameters: dict[str, object]


@dataclass(frozen=True)
class Filter:
    """A condition on the rows of `fact f`, applied before anything is ranked or paged."""

    sql: str
    parameters: dict[str, object] = field(default_factory=dict[str, object])
    narrow: bool = False
    """Whether it asks for more than a whole namespace."""


class TextIndex(Protocol):
    """The lexical index. It stores the words that it is given and knows nothing of language."""

    def put(self, session: Session, namespace: int, key: str, words: Sequence[str]) -> None:
        """Adds the fact of that key, which is in the table of facts by now."""
        ...

    def remove(self, session: Session, fact: int, namespace: int, words: Sequence[str]) -> None:
        """`words` are those that `put` was given."""
        ...

    def clear(self, session: Session) -> None: ...

    def commonness(self, session: Session, words: Sequence[str]) -> tuple[int, dict[str, float]]:
        """Returns how many facts there are and the share of them that hold each word, 0..1.

        May lag behind the newest writes by a few per cent.
        """
        ...

    def rank(
        self, session: Session, namespace: int, words: Sequence[str], where: Filter, limit: int
    ) -> list[tuple[int, float]]:
        """Returns (fact, bm25 > 0), best first, of the facts with any of the words.

        A word that ends in `*` stands for every word that begins with what precedes it.
        """
        ...

    def coverage(
        self, session: Session, weights: Mapping[str, float], facts: Collection[int]
    ) -> dict[int, float]:
        """Returns for each of `facts` the sum of the weights of the words that it holds."""
        ...


class VectorRanking(Protocol):
    """Nearness by cosine among the vectors of one model; a fact counts by its best vector."""

    def nearest(
        self,
        session: Session,
        namespace: int,
        model: str,
        query: bytes,
        where: Filter,
        limit: int,
    ) -> dict[int, float]:
        """Returns the cosines, good to about 0.005, of the nearest facts of all that match."""
        ...

    def near(
        self, session: Session, namespace: int, model: str, query: bytes, facts: Collection[int]
    ) -> dict[int, float]:
        """Returns the cosines, good to about 0.005, of those of `facts` that have a vector."""
        ...

    def exact(
        self, session: Session, model: str, query: bytes, facts: Collection[int]
    ) -> dict[int, float]:
        """Returns the exact cosines of those of `facts` that have a vector."""
        ...

    def log_is_long(self, session: Session, most: int) -> bool:
        """Says whether what an index follows has twice `most` entries, of which half can go."""
        ...

    def cut_log(self, session: Session, most: int) -> None: ...


class Engine(Answering, Protocol):
    """One database. Every method may be called from any thread.

    `one` is a view by itself, as `read` would give it, and needs no transaction around it.
    """

    name: str

    @property
    def text(self) -> TextIndex: ...

    @property
    def vectors(self) -> VectorRanking: ...

    def read(self) -> AbstractContextManager[Session]:
        """A consistent view of what was committed before it began. Never waits for a writer."""
        ...

    def write(
        self,
        job: Callable[[Session], Result],
        locks: Collection[str] | None = None,
        ahead: Sequence[Question] = (),
    ) -> Result:
        """Runs `job` alone in the database and returns its result once that is durable.

        With `locks`, names of what the job reads and decides by, it is alone among the jobs with
        any of these names, or among those that do not merely share it; others may run beside it,
        and it may be run again from the start.
        `ahead` is what it asks first: a database that is far away is asked while it locks.
        What the job raises is raised here, and nothing that it did is kept. Raises `Busy`.
        """
        ...

    def write_soon(
        self,
        job: Callable[[Session], Result],
        locks: Collection[str] | None = None,
        ahead: Sequence[Question] = (),
    ) -> Future[Result]:
        """As `write`, but returns at once; the future ends as `write` would."""
        ...

    def write_each(
        self,
        jobs: Sequence[Callable[[Session], Result]],
        locks: Sequence[Collection[str]],
        ahead: Sequence[Question] = (),
    ) -> list[Result | Exception]:
        """As `write` for each job with its locks, but made durable together where that is cheaper.

        Returns each job's result or what it raised, in order; the jobs run in order too, some
        perhaps again. A question `ahead` must be one whose answer no job changes before it is
        asked for the first time.
        """
        ...

    def last_settled_event(self, session: Session) -> int:
        """Returns the highest event id up to which all events are there: none comes in between.

        0 when there is no event. Whoever follows the trail reads up to this one.
        """
        ...

    def wait_for_writes(self, after_event: int, seconds: float) -> bool:
        """Returns True when there is a settled event beyond `after_event`, else after the time.

        Whoever wrote it, in whatever process. Raises `Unavailable` when the engine is closed.
        """
        ...

    def lock_hold(self, seconds: float) -> float: ...

    def size(self, session: Session) -> int:
        """Returns the bytes that the database takes on disk."""
        ...

    def free_space(self) -> int | None:
        """Returns the bytes that the disk has left for it, None if it is on another machine."""
        ...

    def schema_version(self) -> int: ...

    def stop_waiting(self, seconds: float) -> None:
        """From so many seconds on, a write that would wait for a lock raises `Busy` instead."""
        ...

    def close(self) -> None:
        """Finishes the writes that were accepted, then closes."""
        ...
