"""Ranking: words and meaning fused into one score."""

import math
from dataclasses import dataclass, replace
from heapq import nlargest

from memory_store import changes, facts, namespaces
from memory_store.contract import SearchHit, SearchMode, SearchQuery, SearchResult
from memory_store.engine import Engine, Filter, Session
from memory_store.rows import PRESENT, fact_from, matching
from memory_store.words import query_words

CANDIDATES = 200
"""How many each side proposes before the two are fused."""
SPARE = 32
"""How many more than asked for are scored exactly: int8 misplaces neighbours, not strangers."""
COSINE_WEIGHT = 0.7
LEXICAL_WEIGHT = 0.3
COMMON = 0.3
"""A word that more of the facts hold says little and costs most of the time."""
MANY = 100
"""In a smaller store no word is called common: its counts say nothing yet."""

# Weights and cuts: measured on the LoCoMo conversations
# (docs/decisions.md, "How are words and meaning fused?"); tests/bench/recall.py repeats it.


@dataclass(frozen=True)
class _Scope:
    """Where a query looks: a transaction, a namespace, a filter."""

    engine: Engine
    session: Session
    namespace: int
    where: Filter


@dataclass(frozen=True)
class _Parts:
    """What each side says of the facts: cosines, and words in 0..1."""

    mode: SearchMode
    cosines: dict[int, float]
    lexical: dict[int, float]

    def best(self, count: int) -> list[tuple[float, int]]:
        """The best (score, fact), best first, of equal ones the older fact first."""
        nearest = max(self.cosines.values(), default=0.0)
        scores = (
            (self._score(fact, nearest), -fact)
            for fact in self.lexical.keys() | self.cosines.keys()
        )
        return [(score, -older) for score, older in nlargest(count, scores)]

    def _score(self, fact: int, nearest: float) -> float:
        words = self.lexical.get(fact, 0.0)
        if self.mode == "lexical":
            return words
        # A fact that awaits its vector is taken to be as near as its words are to the best.
        meaning = max(self.cosines.get(fact, nearest * words), 0.0)
        if self.mode == "semantic":
            return min(meaning, 1.0)
        return min(COSINE_WEIGHT * meaning + LEXICAL_WEIGHT * words, 1.0)


def search(engine: Engine, session: Session, query: SearchQuery, now: int) -> SearchResult:
    mode = mode_of(session, query)
    namespace = namespaces.find(session, query.namespace)
    if namespace is None:
        return SearchResult(mode=mode, hits=())
    where = matching(query.namespace, query.prefix, query.tags, now)
    if facts.any_expired(session, now):
        where = replace(where, narrow=True)
    scope = _Scope(engine, session, namespace, where)
    lexical = {} if mode == "semantic" else _lexical(scope, query, mode)
    cosines = {} if mode == "lexical" else _cosines(scope, query, lexical)
    parts = _sharpened(scope, query, _Parts(mode, cosines, lexical))
    pending = 0 if query.mode == "lexical" else changes.count_pending(session, namespace)
    return SearchResult(mode=mode, hits=_hits(scope, query, parts), pending=pending)


def mode_of(session: Session, query: SearchQuery) -> SearchMode:
    """The mode that can be had: without a vector of the model in use, words alone."""
    model = changes.model_in_use(session)
    if query.vector is None or model is None or model.identity != query.model:
        return "lexical"
    model.check("vector", query.vector)
    return query.mode


def telling(commonness: dict[str, float], count: int) -> list[str]:
    """Leaves out the words that too many facts hold, unless no other is there."""
    if count < MANY:
        return list(commonness)
    return [word for word, share in commonness.items() if share <= COMMON] or list(commonness)


def _lexical(scope: _Scope, query: SearchQuery, mode: SearchMode) -> dict[int, float]:
    """bm25 relative to the best; in hybrid also by how much of the query the fact covers.

    Without that the best match by words counts in full however poor it is, and an accidental
    word outweighs the right meaning.
    """
    words = query_words(query.text)
    if not words:
        return {}
    text, session = scope.engine.text, scope.session
    count, shares = text.commonness(session, words)
    asked = telling(shares, count)
    ranked = text.rank(session, scope.namespace, asked, scope.where, CANDIDATES)
    best = max((score for _, score in ranked), default=0.0)
    relative = {fact: score / best if best > 0 else 1.0 for fact, score in ranked}
    if mode == "lexical" or len(asked) == 1:
        return relative
    weights = _weights({word: shares[word] for word in asked}, count)
    covered = text.coverage(session, weights, relative.keys())
    return {fact: score * covered[fact] for fact, score in relative.items()}


def _weights(shares: dict[str, float], count: int) -> dict[str, float]:
    """The inverse document frequencies of the words, as shares of their sum."""
    rarities = {
        word: math.log(1 + (count - share * count + 0.5) / (share * count + 0.5))
        for word, share in shares.items()
    }
    total = sum(rarities.values())
    return {word: rarity / total for word, rarity in rarities.items()}


def _cosines(scope: _Scope, query: SearchQuery, lexical: dict[int, float]) -> dict[int, float]:
    """The nearest facts, and how near those are that words alone proposed."""
    vector, model = query.vector or b"", query.model or ""
    vectors, session, namespace = scope.engine.vectors, scope.session, scope.namespace
    nearest = vectors.nearest(session, namespace, model, vector, scope.where, CANDIDATES)
    others = lexical.keys() - nearest.keys()
    return nearest | vectors.near(session, namespace, model, vector, others)


def _sharpened(scope: _Scope, query: SearchQuery, parts: _Parts) -> _Parts:
    """The same with exact cosines for the best."""
    if not parts.cosines:
        return parts
    best = [fact for _, fact in parts.best(query.limit + SPARE)]
    exact = scope.engine.vectors.exact(scope.session, query.model or "", query.vector or b"", best)
    return replace(parts, cosines=parts.cosines | exact)


def _hits(scope: _Scope, query: SearchQuery, parts: _Parts) -> tuple[SearchHit, ...]:
    least = query.min_score or 0.0
    ranked = [(score, fact) for score, fact in parts.best(query.limit) if score >= least]
    if not ranked:
        return ()
    numbers = {f"i{place}": fact for place, (_, fact) in enumerate(ranked)}
    rows = scope.session.all(
        f"{PRESENT} WHERE f.id IN ({', '.join(f':{name}' for name in numbers)})", **numbers
    )
    found = {row["id"]: fact_from(row) for row in rows}
    return tuple(
        SearchHit(
            fact=found[fact],
            score=score,
            cosine=parts.cosines.get(fact),
            lexical=parts.lexical.get(fact),
        )
        for score, fact in ranked
        if fact in found  # a damaged index may name others
    )
