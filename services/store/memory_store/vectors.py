"""The nearest vectors, exactly: an index in memory that looks at every vector of a namespace."""

import sys
import threading
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

Float32s = NDArray[np.float32]
Int8s = NDArray[np.int8]
Int64s = NDArray[np.int64]

CHUNK = 4096
"""Rows made float32 at a time: a scan needs 6 MB a thread, however large the index."""
PARALLEL_FROM = 4 * CHUNK
"""Rows from which a second thread is worth waking."""
GATHERED_BELOW = 0.2
"""The share of the rows below which picking them out is faster than looking at all."""
GROUP = 64
GROWTH = 1.5
COMPACTED_FROM = 64
GONE = -1
"""Stands for the subject in a row that was taken out. Subjects are not negative."""
BOOKKEEPING = sys.getsizeof(1 << 20)
"""What a subject's number takes, beside its place in the table of homes."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Vectors as int8 with a factor each, and the subject of each."""

    vectors: Int8s
    factors: Float32s
    subjects: Int64s

    def __len__(self) -> int:
        return len(self.subjects)

    @property
    def nbytes(self) -> int:
        return self.vectors.nbytes + self.factors.nbytes + self.subjects.nbytes

    def pick(self, which: slice | list[int] | Int64s) -> "Rows":
        return Rows(self.vectors[which], self.factors[which], self.subjects[which])

    def write(self, start: int, rows: "Rows") -> None:
        place = slice(start, start + len(rows))
        self.vectors[place] = rows.vectors
        self.factors[place] = rows.factors
        self.subjects[place] = rows.subjects


def _room(size: int, dimension: int) -> Rows:
    return Rows(
        np.empty((size, dimension), np.int8),
        np.empty(size, np.float32),
        np.empty(size, np.int64),
    )


class _Block:
    """The rows of one namespace.

    Readers scan without a lock, so what `rows` gave them never changes: new rows are written
    behind it, taking out makes a new column of subjects, compacting makes everything new.
    """

    def __init__(self, dimension: int) -> None:
        self._room = _room(0, dimension)
        self._end = 0
        self._gone = 0

    def __len__(self) -> int:
        return self._end - self._gone

    @property
    def dimension(self) -> int:
        return self._room.vectors.shape[1]

    @property
    def nbytes(self) -> int:
        return self._room.nbytes

    def rows(self) -> Rows:
        return self._room.pick(slice(self._end))

    def append(self, rows: Rows) -> None:
        if self._end + len(rows) > len(self._room):
            self._move(len(rows))
        self._room.write(self._end, rows)
        self._end += len(rows)

    def take_out(self, subjects: Sequence[int]) -> None:
        column = self._room.subjects.copy()
        held = column[: self._end]
        taken = np.isin(held, subjects)
        held[taken] = GONE
        self._room = Rows(self._room.vectors, self._room.factors, column)
        self._gone += int(np.count_nonzero(taken))
        if self._gone > max(COMPACTED_FROM, self._end // 4):
            self._move(0)

    def _move(self, more: int) -> None:
        """Leaves behind what is gone and makes room for more."""
        old, kept = self.rows(), len(self)
        room = _room(int((kept + more) * GROWTH), self.dimension)
        end = 0
        for start in range(0, len(old), CHUNK):
            chunk = old.pick(slice(start, start + CHUNK))
            live = chunk.pick(np.flatnonzero(chunk.subjects != GONE))
            room.write(end, live)
            end += len(live)
        self._room, self._end, self._gone = room, end, 0


class VectorIndex:
    """Finds the subjects whose best vector is nearest to a query, within one namespace.

    A subject, a number from 0 on, has one or several vectors (windows) in one namespace. Vectors
    are normalised little-endian float32, all as long as the first; `ValueError` otherwise.
    Every method may be called from any thread. Ranking sees the index as it was at one moment and
    keeps nobody waiting.
    """

    def __init__(self, threads: int = 2) -> None:
        self._lock = threading.Lock()
        self._blocks: dict[str, _Block] = {}
        self._homes: dict[int, str] = {}
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, "vectors")

    def __len__(self) -> int:
        """The number of vectors."""
        with self._lock:
            return sum(map(len, self._blocks.values()))

    @property
    def bytes_used(self) -> int:
        with self._lock:
            homes = sys.getsizeof(self._homes) + len(self._homes) * BOOKKEEPING
            return homes + sum(block.nbytes for block in self._blocks.values())

    def put(self, namespace: str, subject: int, windows: Sequence[bytes]) -> None:
        """Replaces the subject's vectors, wherever they were; no windows: as `remove`."""
        if not windows:
            return self.remove(subject)
        rows = _quantised([subject] * len(windows), windows)
        with self._lock:
            self._check(rows)
            self._take_out([subject])
            self._add(namespace, rows)
        return None

    def remove(self, subject: int) -> None:
        """Takes out the subject's vectors, if it has any."""
        with self._lock:
            self._take_out([subject])

    def clear(self) -> None:
        with self._lock:
            self._blocks.clear()
            self._homes.clear()

    def load(self, rows: Iterable[tuple[str, int, bytes]]) -> None:
        """Puts many (namespace, subject, vector) at once; a subject may come several times.

        What was there before of these subjects is replaced.
        """
        with self._lock:
            before = set(self._homes)
        for batch in _batches(rows):
            namespaces, subjects, vectors = zip(*batch, strict=True)
            new = _quantised(subjects, vectors)
            replaced = before.intersection(subjects)
            before -= replaced
            with self._lock:
                self._check(new)
                self._take_out(replaced)
                for namespace, places in _places(namespaces).items():
                    self._add(namespace, new.pick(places))

    def rank(
        self, namespace: str, query: bytes, limit: int, allowed: Collection[int] | None = None
    ) -> list[tuple[int, float]]:
        """Returns up to `limit` (subject, cosine of its best window), best first.

        Only `allowed` subjects take part, if given. The cosines are good to about 0.005, so what
        must be exact asks for more than it needs and goes through `rescore`.
        """
        with self._lock:
            block = self._blocks.get(namespace)
            rows = block.rows() if block else None
        if rows is None or limit < 1:
            return []
        picked, subjects = _asked(rows.subjects, allowed)
        scores = self._scores(rows, _query(query, rows.vectors.shape[1]), picked)
        return _best(scores, subjects, limit)

    def _check(self, rows: Rows) -> None:
        block = next(iter(self._blocks.values()), None)
        if block:
            _check_dimension(rows.vectors.shape[1], block.dimension)

    def _add(self, namespace: str, rows: Rows) -> None:
        block = self._blocks.get(namespace)
        if block is None:
            block = self._blocks[namespace] = _Block(rows.vectors.shape[1])
        block.append(rows)
        self._homes.update(dict.fromkeys(rows.subjects.tolist(), namespace))

    def _take_out(self, subjects: Iterable[int]) -> None:
        homes: dict[str, list[int]] = defaultdict(list)
        for subject in subjects:
            if subject in self._homes:
                homes[self._homes.pop(subject)].append(subject)
        for namespace, residents in homes.items():
            block = self._blocks[namespace]
            block.take_out(residents)
            if not block:
                del self._blocks[namespace]

    def _scores(self, rows: Rows, query: Float32s, picked: Int64s | None) -> Float32s:
        scan = _Scan(rows, query, picked)
        parallel = len(scan.scores) >= PARALLEL_FROM
        others = [self._pool.submit(scan.run) for _ in range(self._threads - 1) if parallel]
        scan.run()
        for other in others:
            if not other.cancel():  # cancelled: all was done before it came to its turn
                other.result()
        return scan.scores


class _Scan:
    """The scores of some rows, made chunk by chunk by as many threads as `run` it."""

    def __init__(self, rows: Rows, query: Float32s, picked: Int64s | None) -> None:
        self._rows = rows
        self._query = query
        self._picked = picked
        self.scores = np.empty(len(rows) if picked is None else len(picked), np.float32)
        self._starts = iter(range(0, len(self.scores), CHUNK))

    def run(self) -> None:
        buffer = np.empty((min(CHUNK, len(self.scores)), len(self._query)), np.float32)
        for start in self._starts:
            self._score(slice(start, start + CHUNK), buffer)

    def _score(self, chunk: slice, buffer: Float32s) -> None:
        which = chunk if self._picked is None else self._picked[chunk]
        narrow = self._rows.vectors[which]
        wide = buffer[: len(narrow)]
        np.copyto(wide, narrow)
        # Not matmul: OpenBLAS would answer with threads of its own, one caller at a time.
        self.scores[chunk] = np.vecdot(wide, self._query) * self._rows.factors[which]


def rescore(query: bytes, candidates: Mapping[int, Sequence[bytes]]) -> dict[int, float]:
    """Returns the exact cosine of each subject's best window; a subject without one is left out."""
    windows = {subject: vectors for subject, vectors in candidates.items() if vectors}
    if not windows:
        return {}
    matrix = _matrix([vector for vectors in windows.values() for vector in vectors])
    scores = np.vecdot(matrix, _query(query, matrix.shape[1]))
    ends = np.cumsum([len(vectors) for vectors in windows.values()])
    best = np.maximum.reduceat(scores, [0, *ends[:-1]])
    return dict(zip(windows, best.tolist(), strict=True))


def _matrix(vectors: Sequence[bytes]) -> Float32s:
    for vector in vectors:
        _check_dimension(len(vector) // 4, len(vectors[0]) // 4)
    return np.frombuffer(b"".join(vectors), "<f4").reshape(len(vectors), -1)


def _query(vector: bytes, dimension: int) -> Float32s:
    _check_dimension(len(vector) // 4, dimension)
    return np.frombuffer(vector, "<f4")


def _check_dimension(found: int, expected: int) -> None:
    if found != expected:
        raise ValueError(f"The vector has {found} dimensions, those it meets have {expected}.")


def _quantised(subjects: Sequence[int], vectors: Sequence[bytes]) -> Rows:
    matrix = _matrix(vectors)
    factors = np.abs(matrix).max(axis=1, initial=1e-12) / 127
    rounded = np.rint(matrix / factors[:, None]).astype(np.int8)
    return Rows(rounded, factors, np.array(subjects, np.int64))


def _batches(rows: Iterable[tuple[str, int, bytes]]) -> Iterator[list[tuple[str, int, bytes]]]:
    iterator = iter(rows)
    while batch := list(islice(iterator, CHUNK)):
        yield batch


def _places(namespaces: Sequence[str]) -> dict[str, list[int]]:
    places: dict[str, list[int]] = defaultdict(list)
    for place, namespace in enumerate(namespaces):
        places[namespace].append(place)
    return places


def _asked(subjects: Int64s, allowed: Collection[int] | None) -> tuple[Int64s | None, Int64s]:
    """The rows to score, None for all, and the subject of each, GONE where it is not asked for."""
    if allowed is None:
        return None, subjects
    asked = np.isin(subjects, np.fromiter(allowed, np.int64, len(allowed)))
    picked = np.flatnonzero(asked)
    if len(picked) < GATHERED_BELOW * len(subjects):
        return picked, subjects[picked]
    return None, np.where(asked, subjects, GONE)


def _best(scores: Float32s, subjects: Int64s, limit: int) -> list[tuple[int, float]]:
    scores[subjects == GONE] = -np.inf
    wanted = limit
    while True:
        rows = _top(scores, wanted)
        ranked = rows[np.lexsort((subjects[rows], -scores[rows]))]
        best: dict[int, float] = {}
        for subject, score in zip(subjects[ranked].tolist(), scores[ranked].tolist(), strict=True):
            best.setdefault(subject, score)
        if len(best) >= limit or len(rows) < wanted:
            return list(best.items())[:limit]
        wanted *= 4  # some have several windows among the top


def _top(scores: Float32s, wanted: int) -> Int64s:
    """The `wanted` best rows and, now and then, a few below them, in no order."""
    groups = len(scores) // GROUP
    # The best of every group are rows too, and far fewer to partition.
    bests = scores if wanted > groups else scores[: groups * GROUP].reshape(-1, GROUP).max(axis=1)
    last = max(len(bests) - wanted, 0)
    threshold = np.partition(bests, last)[last] if len(bests) else np.inf
    return np.flatnonzero((scores >= threshold) & (scores > -np.inf))
