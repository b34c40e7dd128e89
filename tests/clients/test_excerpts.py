"""Long text on one line."""

import pytest

from memory_bridge.excerpts import difference, excerpt, place_of, width

DIGITS = "0123456789" * 10


@pytest.mark.parametrize(
    ("start", "shown"),
    [
        (0, "01234567890…"),
        (2, "01234567890…"),
        (25, "…2345678901…"),
        (99, "…90123456789"),
        (100, "…90123456789"),
    ],
)
def test_an_excerpt_shows_what_is_at_its_start_and_marks_where_it_is_cut(start, shown):
    assert excerpt(DIGITS, 12, start) == shown


def test_what_fits_is_not_cut():
    assert excerpt("one\ntwo", 8, start=4) == r"one\ntwo"
    assert excerpt("one\ntwo", 7) == r"one\nt…"
    assert excerpt("", 0) == ""


@pytest.mark.parametrize("text", ["日本" * 20, "e\u0301" * 40, "a\n\x1b" * 40])
@pytest.mark.parametrize("start", [0, 7, 20, 40])
@pytest.mark.parametrize("room", [2, 3, 8, 19])
def test_no_excerpt_takes_more_columns_than_its_room(text, start, room):
    assert room - 3 <= width(excerpt(text, room, start)) <= room


@pytest.mark.parametrize(
    ("words", "text", "found"),
    [
        (["port"], "The PORT", "PORT"),
        (["port"], "an important port", "port"),
        (["the", "database"], "the old database", "database"),
        (["deploy"], "it was deployed", "deployed"),
        (["port"], "all important", "portant"),
        (["東京"], "昨日は東京の", "東京の"),
        (["next"], "line\nnext", "next"),
        (["a.b"], "axb a.b", "a.b"),
        (["nowhere"], "the beginning", "the beginning"),
        ([], "the beginning", "the beginning"),
    ],
)
def test_the_place_of_a_word_is_where_it_stands_first(words, text, found):
    assert text[place_of(words, text) :].startswith(found)


@pytest.mark.parametrize(
    ("one", "other", "place"),
    [("abc", "abd", 2), ("x", "y", 0), ("ab", "abc", 2), ("same", "same", 0)],
)
def test_the_place_where_two_texts_differ(one, other, place):
    assert difference(one, other) == difference(other, one) == place
