"""The lexical index on Postgres: posting lists in a table, ranked as FTS5 ranks."""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from memory_store.engine import Filter, Row, Session
from memory_store.fingerprints import fingerprint
from memory_store.rows import OF_KEY, after_prefix

SATURATION = 1.2
BY_LENGTH = 0.75
LEAST_RARITY = 1e-6
"""FTS5's k1 and b, and its floor under what a word that half of the facts hold counts."""
ENTRIES_AT_ONCE = 5000
_ENTRIES = (
    "SELECT word, namespace_id, fact_id, times FROM fact_word"
    " WHERE (word, namespace_id, fact_id) > (:word, :namespace_id, :fact_id)"
    " ORDER BY word, namespace_id, fact_id LIMIT :limit"
)
_TERMS = "unnest(:places::int[], :words::text[], :weights::float8[]) AS t (place, word, weight)"


@dataclass
class _Counts:
    """What was counted when so many edits had been made."""

    edits: int = -1
    facts: int = 0
    average_size: float = 1.0
    holding: dict[str, int] = field(default_factory=dict[str, int])


class PostgresText:
    def __init__(self) -> None:
        self._counts = _Counts()

    def put(self, session: Session, namespace: int, key: str, words: Sequence[str]) -> None:
        times = sorted(Counter(words).items())
        # FTS5 counts the word for the namespace too.
        size = len(words) + 1
        session.later(
            "INSERT INTO fact_word (word, namespace_id, fact_id, times, size)"
            " SELECT t.word, f.namespace_id, f.id, t.times, :size"
            " FROM fact f, unnest(:words::text[], :times::int[]) AS t (word, times)"
            f" WHERE {OF_KEY}",
            namespace=namespace,
            key=key,
            size=size,
            words=["", *(word for word, _ in times)],
            times=[size, *(count for _, count in times)],
        )

    def remove(self, session: Session, fact: int, namespace: int, words: Sequence[str]) -> None:
        session.later(
            "DELETE FROM fact_word WHERE word = ANY (:words)"
            " AND namespace_id = :namespace AND fact_id = :fact",
            namespace=namespace,
            fact=fact,
            words=["", *sorted(set(words))],
        )

    def clear(self, session: Session) -> None:
        session.run("DELETE FROM fact_word")

    def commonness(self, session: Session, words: Sequence[str]) -> tuple[int, dict[str, float]]:
        counts = self._counted(session, words)
        return counts.facts, {
            word: min(counts.holding[word] / max(counts.facts, 1), 1.0) for word in words
        }

    def rank(
        self, session: Session, namespace: int, words: Sequence[str], where: Filter, limit: int
    ) -> list[tuple[int, float]]:
        counts = self._counted(session, words)
        # Cut to 7 digits: the order in which equal facts are summed up must not part them.
        rows = session.all(
            "SELECT p.fact_id AS id, sum(p.weight * p.times * (:k + 1)"
            " / (p.times + :k * (1 - :b + :b * p.size / :average)))::real AS score"
            " FROM (SELECT t.place, t.weight, w.fact_id, w.size, sum(w.times) AS times"
            f" FROM {_TERMS} JOIN fact_word w ON w.word = t.word AND w.namespace_id = :number"
            " GROUP BY t.place, t.weight, w.fact_id, w.size) p"
            f"{_allowed(where)} GROUP BY p.fact_id ORDER BY score DESC, p.fact_id LIMIT :limit",
            k=SATURATION,
            b=BY_LENGTH,
            average=counts.average_size,
            number=namespace,
            limit=limit,
            **self._terms(session, {word: _rarity(counts, word) for word in words}),
            **(where.parameters if where.narrow else {}),
        )
        return [(row["id"], row["score"]) for row in rows]

    def coverage(
        self, session: Session, weights: Mapping[str, float], facts: Collection[int]
    ) -> dict[int, float]:
        rows = session.all(
            "SELECT p.fact_id AS id, sum(p.weight) AS weight FROM ("
            f"SELECT DISTINCT t.place, t.weight, w.fact_id FROM {_TERMS}"
            " JOIN fact_word w ON w.word = t.word AND w.fact_id = ANY (:facts)) p"
            " GROUP BY p.fact_id",
            facts=list(facts),
            **self._terms(session, weights),
        )
        return dict.fromkeys(facts, 0.0) | {row["id"]: row["weight"] for row in rows}

    def fingerprints(self, session: Session) -> dict[int, int]:
        """Returns for each fact in the index the fingerprint of its words."""
        held: dict[int, int] = defaultdict(int)
        last: Row = {"word": "", "namespace_id": 0, "fact_id": 0}
        while rows := session.all(_ENTRIES, **last, limit=ENTRIES_AT_ONCE):
            for row in rows:
                held[row["fact_id"]] += row["times"] * fingerprint(filter(None, [row["word"]]))
            last = {name: rows[-1][name] for name in last}
        return held

    def _terms(self, session: Session, weights: Mapping[str, float]) -> dict[str, object]:
        """The parameters of `_TERMS`: a term's words, one or many, have its place."""
        terms = [
            (place, word, weight)
            for place, (term, weight) in enumerate(weights.items())
            for word in _words_of(session, term)
        ]
        places, words, rarities = zip(*terms, strict=True) if terms else ((), (), ())
        return {"places": list(places), "words": list(words), "weights": list(rarities)}

    def _counted(self, session: Session, words: Sequence[str]) -> _Counts:
        counts = self._fresh(session)
        for word in words:
            if word not in counts.holding:
                counts.holding[word] = _holding(session, word)
        return counts

    def _fresh(self, session: Session) -> _Counts:
        # Counting costs milliseconds in a large store, and what is counted moves slowly.
        edits, counts = _edits(session), self._counts
        if counts.edits < 0 or edits - counts.edits > counts.facts // 20:
            row = session.one(
                "SELECT count(*) AS facts, coalesce(avg(times), 1)::float8 AS size"
                " FROM fact_word WHERE word = ''"
            )
            counts = _Counts(edits, row["facts"], row["size"]) if row else _Counts()
            self._counts = counts
        return counts


def _edits(session: Session) -> int:
    """A number that grows with every fact that is written, and with every transaction."""
    row = session.one(
        "SELECT (SELECT last_value FROM change_sequence_seq)"
        " + (SELECT coalesce(max(id), 0) >> 20 FROM event) AS edits"
    )
    return int(row["edits"]) if row else 0


def _holding(session: Session, word: str) -> int:
    condition, parameters = _of(word)
    row = session.one(
        f"SELECT count(DISTINCT fact_id) AS n FROM fact_word WHERE {condition}", **parameters
    )
    return int(row["n"]) if row else 0


def _words_of(session: Session, word: str) -> list[str]:
    if not word.endswith("*"):
        return [word]
    condition, parameters = _of(word)
    rows = session.all(f"SELECT DISTINCT word FROM fact_word WHERE {condition}", **parameters)
    return [row["word"] for row in rows]


def _of(word: str) -> tuple[str, dict[str, object]]:
    if not word.endswith("*"):
        return "word = :word", {"word": word}
    beyond = after_prefix(word[:-1])
    if beyond is None:
        return "word >= :word", {"word": word[:-1]}
    return "word >= :word AND word < :beyond", {"word": word[:-1], "beyond": beyond}


def _rarity(counts: _Counts, word: str) -> float:
    holding = min(counts.holding[word], counts.facts)
    return max(
        math.log((counts.facts - holding + 0.5) / (holding + 0.5)) if counts.facts else 0.0,
        LEAST_RARITY,
    )


def _allowed(where: Filter) -> str:
    """The whole namespace is what the posting lists are asked for anyway."""
    return f" JOIN fact f ON f.id = p.fact_id WHERE {where.sql}" if where.narrow else ""
