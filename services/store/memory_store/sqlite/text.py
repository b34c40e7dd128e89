"""The lexical index on FTS5, used as posting lists: the words come ready-made from words.py."""

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from memory_store.engine import Filter, Session
from memory_store.fingerprints import fingerprint
from memory_store.rows import OF_KEY

TERMS_AT_ONCE = 20
_TERMS = "SELECT term FROM fact_vocabulary WHERE term > :last ORDER BY term LIMIT :limit"
_HOLDERS = "SELECT doc, term, col FROM temp.fact_word WHERE term >= :first AND term <= :last"


def match_expression(namespace: int | None, words: Sequence[str]) -> str:
    """The namespace's number is a word too, so that the index itself leaves the others out.

    None where there are no others: it is the word of every fact, and weighs nothing.
    """
    terms = " OR ".join(map(_term, words))
    return f"words : ({terms})" if namespace is None else f"ns : {namespace} AND words : ({terms})"


def _term(word: str) -> str:
    return f'"{word[:-1]}" *' if word.endswith("*") else f'"{word}"'


def _is_only_one(session: Session) -> bool:
    return len(session.all("SELECT 1 FROM namespace LIMIT 2")) == 1


@dataclass
class _Count:
    """How many facts held a word when the store had seen this many events."""

    documents: int
    events: int


class SqliteText:
    def __init__(self) -> None:
        self._facts = _Count(0, -1)
        self._holding: dict[str, _Count] = {}

    def put(self, session: Session, namespace: int, key: str, words: Sequence[str]) -> None:
        session.later(
            "INSERT INTO fact_words (rowid, ns, words)"
            f" SELECT f.id, :ns, :words FROM fact f WHERE {OF_KEY}",
            namespace=namespace,
            key=key,
            ns=str(namespace),
            words=" ".join(words),
        )

    def remove(self, session: Session, fact: int, namespace: int, words: Sequence[str]) -> None:
        session.later(
            "INSERT INTO fact_words (fact_words, rowid, ns, words)"
            " VALUES ('delete', :fact, :ns, :words)",
            fact=fact,
            ns=str(namespace),
            words=" ".join(words),
        )

    def clear(self, session: Session) -> None:
        session.run("INSERT INTO fact_words (fact_words) VALUES ('delete-all')")

    def commonness(self, session: Session, words: Sequence[str]) -> tuple[int, dict[str, float]]:
        newest = session.one("SELECT coalesce(max(id), 0) AS id FROM event")
        events = int(newest["id"]) if newest else 0
        facts = self._count_facts(session, events)
        return facts, {
            word: self._count(session, word, events, facts) / max(facts, 1) for word in words
        }

    def _count_facts(self, session: Session, events: int) -> int:
        if self._stale(self._facts, events):
            row = session.one("SELECT count(*) AS n FROM fact")
            self._facts = _Count(int(row["n"]) if row else 0, events)
            self._holding.clear()
        return self._facts.documents

    def _stale(self, count: _Count, events: int) -> bool:
        # Counting a common word costs milliseconds in a large store, and its share moves slowly.
        return count.events < 0 or events - count.events > count.documents // 20

    def _count(self, session: Session, word: str, events: int, facts: int) -> int:
        known = self._holding.get(word)
        if known is None:
            row = session.one("SELECT doc FROM fact_vocabulary WHERE term = :word", word=word)
            known = _Count(int(row["doc"]) if row else 0, events)
            self._holding[word] = known
        return min(known.documents, facts)

    def rank(
        self, session: Session, namespace: int, words: Sequence[str], where: Filter, limit: int
    ) -> list[tuple[int, float]]:
        # Looking at the row of every fact that has a word would cost as much as ranking it.
        allowed = (
            f" AND EXISTS (SELECT 1 FROM fact f WHERE f.id = fact_words.rowid AND {where.sql})"
            if where.narrow
            else ""
        )
        rows = session.all(
            "SELECT rowid AS id, -bm25(fact_words, 0.0, 1.0) AS score FROM fact_words"
            f" WHERE fact_words MATCH :match{allowed} ORDER BY score DESC, rowid LIMIT :limit",
            match=match_expression(None if _is_only_one(session) else namespace, words),
            limit=limit,
            **(where.parameters if where.narrow else {}),
        )
        return [(row["id"], row["score"]) for row in rows]

    def coverage(
        self, session: Session, weights: Mapping[str, float], facts: Collection[int]
    ) -> dict[int, float]:
        held = dict.fromkeys(facts, 0.0)
        for word, weight in weights.items():
            # +rowid: one pass over the word's list instead of a search in it for every fact.
            for row in session.all(
                "SELECT rowid AS fact FROM fact_words WHERE fact_words MATCH :match"
                " AND +rowid IN (SELECT value FROM json_each(:facts))",
                match=f"words : {_term(word)}",
                facts=json.dumps(list(facts)),
            ):
                held[row["fact"]] += weight
        return held

    def fingerprints(self, session: Session) -> dict[int, int]:
        """Returns for each fact in the index the fingerprint of its words."""
        session.run(
            "CREATE VIRTUAL TABLE temp.fact_word USING fts5vocab ('main', 'fact_words', 'instance')"
        )
        held: dict[int, int] = defaultdict(int)
        last = ""
        while terms := session.all(_TERMS, last=last, limit=TERMS_AT_ONCE):
            first, last = terms[0]["term"], terms[-1]["term"]
            for row in session.all(_HOLDERS, first=first, last=last):
                held[row["doc"]] += fingerprint([row["term"]]) if row["col"] == "words" else 0
        session.run("DROP TABLE temp.fact_word")
        return held
