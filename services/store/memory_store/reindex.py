"""Makes the lexical index anew when the words of a text are made by another recipe."""

import logging
import time
from collections.abc import Callable

from memory_store.contract import Busy
from memory_store.engine import Engine, Row, Session, TextIndex
from memory_store.rows import PRESENT, fact_from
from memory_store.words import WORDS_RECIPE, index_words

logger = logging.getLogger(__name__)

AT_ONCE = 200
PATIENCE_SECONDS = 30.0
PAUSE_SECONDS = 0.05


def ensure_words(engine: Engine) -> None:
    """Returns when the index holds the words of this program's recipe."""
    with engine.read() as session:
        known = _recipe(session)
    if known != WORDS_RECIPE:
        _patiently(lambda: engine.write(lambda session: _rebuild(engine, session)))


def _patiently(rebuild: Callable[[], None]) -> None:
    """Opening waits longer than a write may: another process may be doing the same."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return rebuild()
        except Busy:
            if time.monotonic() > deadline:
                raise
        time.sleep(PAUSE_SECONDS)


def remake_words(engine: Engine) -> None:
    """Makes the index anew from the facts, whatever it holds. Writes wait for it."""
    engine.write(lambda session: _remake(engine, session))


def _recipe(session: Session) -> int:
    row = session.one("SELECT value FROM index_state WHERE name = 'words_recipe'")
    return int(row["value"]) if row else 0


def _remake(engine: Engine, session: Session) -> None:
    fill_words(engine.text, session, lambda _done: None)


def _rebuild(engine: Engine, session: Session) -> None:
    # Of two programs that start at once the second finds the work done.
    if _recipe(session) != WORDS_RECIPE:
        _remake(engine, session)


def fill_words(text: TextIndex, session: Session, step: Callable[[int], None]) -> None:
    """Makes the index from the facts, in one transaction: readers rank by the old words so long.

    `step` is told how many more facts are done.
    """
    text.clear(session)
    after = 0
    while rows := _some(session, after):
        for row in rows:
            fact = fact_from(row)
            words = index_words(fact.key, fact.value, *fact.tags)
            text.put(session, row["namespace_id"], fact.key, words)
        after = rows[-1]["id"]
        step(len(rows))
        logger.info("lexical index: remade up to fact %d", after)
    session.run(
        "INSERT INTO index_state (name, value) VALUES ('words_recipe', :recipe)"
        " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        recipe=str(WORDS_RECIPE),
    )


def _some(session: Session, after: int) -> list[Row]:
    return session.all(
        f"{PRESENT} WHERE f.id > :after ORDER BY f.id LIMIT :limit", after=after, limit=AT_ONCE
    )
