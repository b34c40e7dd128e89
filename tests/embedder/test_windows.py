"""Windows hold every character, overlap, and stay within what the model reads."""

from hypothesis import given
from hypothesis import strategies as st

from memory_embedder.onnx import OnnxEmbedder
from memory_embedder.session import Session
from memory_embedder.windows import Word, cut

WORDS = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 12)), max_size=60)


def spelled(words: list[tuple[int, int]], gap: int) -> tuple[str, list[Word]]:
    """Makes a text without a repeated character, so that a piece has one place in it."""
    position, cut_words = gap, list[Word]()
    for length, tokens in words:
        cut_words.append(Word(position, tokens))
        position += length + gap
    return "".join(chr(0x4E00 + i) for i in range(position)), cut_words


@given(WORDS, st.integers(0, 3))
def test_every_character_lies_in_a_window_and_neighbours_touch(words: list[tuple[int, int]], gap):
    text, cut_words = spelled(words, gap)
    reached = 0
    for piece in cut(text, cut_words, size=20, overlap=5):
        start = text.index(piece)
        assert start <= reached
        reached = max(reached, start + len(piece))
    assert reached == len(text)


@given(WORDS)
def test_no_window_has_more_tokens_than_its_size(words: list[tuple[int, int]]):
    text, cut_words = spelled(words, gap=0)
    for piece in cut(text, cut_words, size=20, overlap=5):
        start = text.index(piece)
        inside = [word.tokens for word in cut_words if start <= word.start < start + len(piece)]
        assert sum(inside) <= 20


def test_neighbours_share_the_overlap():
    text, words = spelled([(1, 1)] * 50, gap=0)
    first, second, *_ = cut(text, words, size=20, overlap=5)
    assert first[-5:] == second[:5]


def test_a_word_larger_than_a_window_is_one_by_itself():
    text, words = spelled([(2, 3), (2, 90), (2, 3)], gap=1)
    assert len(cut(text, words, size=20, overlap=5)) == 3


def test_a_short_text_is_one_window(embedder: OnnxEmbedder):
    assert embedder.windows("  a short text \n") == ["  a short text \n"]


def test_a_text_without_a_word_is_one_window(embedder: OnnxEmbedder):
    assert embedder.windows("") == [""]
    assert embedder.windows(" \n\t ") == [" \n\t "]


def session_of(embedder: OnnxEmbedder) -> Session:
    return embedder._loaded()


def token_count(embedder: OnnxEmbedder, text: str) -> int:
    return len(session_of(embedder)._tokens._tokenizer.encode(text).ids)


NASTY = st.text(
    st.sampled_from(
        "a 1.-_/中文ไทย한국어éé\u0301\u0300İßﷺ㍿🙂👩\u200d👩\u200d👧\u202e\u0085\u00a0\t\n[]"
    ),
    min_size=1,
)


@given(NASTY, st.integers(50, 400))
def test_the_model_reads_every_window_of_any_text_whole(embedder: OnnxEmbedder, part: str, times):
    text = (part * times)[:16_384]
    pieces = embedder.windows(text)
    assert max(token_count(embedder, piece) for piece in pieces) <= 256
    assert text.startswith(pieces[0])
    assert text.endswith(pieces[-1])
    assert sum(map(len, pieces)) >= len(text)


def test_the_longest_value_gets_few_enough_windows(embedder: OnnxEmbedder):
    sentences = "The deploy of the billing service waits for the database migration. " * 300
    assert 8 <= len(embedder.windows(sentences[:16_384])) <= 25
    assert len(embedder.windows("記" * 16_384)) <= 80
