"""Ranking: words and meaning fused into one score."""

from dataclasses import dataclass, replace

from memory_store import changes, facts, namespaces
from memory_store.contract import SearchHit, SearchMode, SearchQuery, SearchResult
from memory_store.engine import Engine, Filter, Session
from memory_store.rows import PRESENT, fact_from, matching
from memory_store.words import query_words

CANDIDATES = 200
"""How many each side proposes before the two are fused."""
COSINE_WEIGHT = 0.7
LEXICAL_WEIGHT = 0.3
COMMON = 0.3
"""A word that more of the facts hold says little and costs most of the time."""
MANY = 100
"""In a smaller store no word is called common: its counts say nothing yet."""

# Weights and cuts: measured on the LoCoMo conversations against reciprocal rank fusion and others
# (docs/decisions.md, "How are words and meaning fused?"); tests/bench/recall.py repeats it.


@dataclass(frozen=True)
class _Scored:
    fact: int
    score: float
    cosine: float | None
    lexical: float | None


@dataclass(frozen=True)
class _Scope:
    """Where a query looks: a transaction, a namespace, a filter."""

    engine: Engine
    session: Session
    namespace: int
    where: Filter


def search(engine: Engine, session: Session, query: SearchQuery, now: int) -> SearchResult:
    mode = mode_of(session, query)
    namespace = namespaces.find(session, query.namespace)
    if namespace is None:
        return SearchResult(mode=mode, hits=())
    where = matching(query.namespace, query.prefix, query.tags, now)
    if facts.any_expired(session, now):
        where = replace(where, narrow=True)
    scope = _Scope(engine, session, namespace, where)
    lexical = {} if mode == "semantic" else _lexical(scope, query)
    cosines = {} if mode == "lexical" else _cosines(scope, query, lexical)
    ranked = _fuse(mode, lexical, cosines)
    if query.min_score is not None:
        ranked = [scored for scored in ranked if scored.score >= query.min_score]
    return SearchResult(mode=mode, hits=_hits(session, ranked[: query.limit], where))


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


def _lexical(scope: _Scope, query: SearchQuery) -> dict[int, float]:
    words = query_words(query.text)
    if not words:
        return {}
    text, session = scope.engine.text, scope.session
    count, shares = text.commonness(session, words)
    words = telling(shares, count)
    ranked = text.rank(session, scope.namespace, words, scope.where, CANDIDATES)
    best = max((score for _, score in ranked), default=0.0)
    return {fact: score / best if best > 0 else 1.0 for fact, score in ranked}


def _cosines(scope: _Scope, query: SearchQuery, lexical: dict[int, float]) -> dict[int, float]:
    """The nearest facts, and how near those are that words alone proposed."""
    vector, model = query.vector or b"", query.model or ""
    vectors, session = scope.engine.vectors, scope.session
    nearest = dict(vectors.rank(session, scope.namespace, model, vector, scope.where, CANDIDATES))
    others = [fact for fact in lexical if fact not in nearest]
    return nearest | vectors.score(session, model, vector, others)


def _fuse(mode: SearchMode, lexical: dict[int, float], cosines: dict[int, float]) -> list[_Scored]:
    scored = [
        _Scored(
            fact,
            score=_score(mode, cosines.get(fact), lexical.get(fact)),
            cosine=cosines.get(fact),
            lexical=lexical.get(fact),
        )
        for fact in lexical.keys() | cosines.keys()
    ]
    return sorted(scored, key=lambda one: (-one.score, one.fact))


def _score(mode: SearchMode, cosine: float | None, lexical: float | None) -> float:
    meaning, words = max(cosine or 0.0, 0.0), lexical or 0.0
    if mode == "lexical":
        return words
    if mode == "semantic":
        return min(meaning, 1.0)
    return min(COSINE_WEIGHT * meaning + LEXICAL_WEIGHT * words, 1.0)


def _hits(session: Session, ranked: list[_Scored], where: Filter) -> tuple[SearchHit, ...]:
    numbers = {f"i{place}": one.fact for place, one in enumerate(ranked)}
    rows = session.all(
        f"{PRESENT} WHERE f.id IN ({', '.join(f':{name}' for name in numbers)}) AND {where.sql}",
        **numbers,
        **where.parameters,
    )
    found = {row["id"]: fact_from(row) for row in rows}
    return tuple(
        SearchHit(fact=found[one.fact], score=one.score, cosine=one.cosine, lexical=one.lexical)
        for one in ranked
        if one.fact in found
    )
