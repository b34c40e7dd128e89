"""The words of texts and queries, and whether a query finds what it should through FTS5."""

import sqlite3
import sys
import threading
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_store.words import (
    LONGEST,
    MOST_IN_QUERY,
    PUNCTUATION,
    WORDS_RECIPE,
    index_words,
    query_words,
)

NASTY = st.one_of(
    st.text(),
    st.text(st.characters()),  # with lone surrogates and unassigned characters
    st.text(st.sampled_from("aB9é्か字글ส中 .-_*'\"’#+/\\@\x00\n\u200b\u200d\ufe0f😀🇩👍🏽ﬁİßς𝐀")),
    st.from_regex(r"[\w.*/+-]{100,200}"),
)


class Index:
    """Posting lists as the store keeps them: a tokenizer that merely splits at blanks."""

    def __init__(self, *texts):
        self.db = sqlite3.connect(":memory:")
        self.db.execute(
            "CREATE VIRTUAL TABLE posting USING"
            f" fts5 (words, tokenize = \"ascii tokenchars '{PUNCTUATION}'\")"
        )
        for text in texts:
            words = " ".join(index_words(text))
            self.db.execute("INSERT INTO posting VALUES (?)", (words,))
        self.texts = texts

    def find(self, query):
        terms = [f'"{w[:-1]}" *' if w.endswith("*") else f'"{w}"' for w in query_words(query)]
        found = self.db.execute(
            "SELECT rowid FROM posting WHERE posting MATCH ? ORDER BY bm25(posting)",
            (" OR ".join(terms),),
        )
        return [self.texts[rowid - 1] for (rowid,) in found]


def is_ordinary(word):
    kinds = {unicodedata.category(character) for character in word}
    return (
        word
        and not kinds & {"Zs", "Zl", "Zp", "Cc", "Cf", "Cs"}
        and not set(word) & set("\"'`()[]{}<>“”‘’«»")
    )


def matches(word, indexed):
    if word.endswith("*"):
        return any(other.startswith(word[:-1]) for other in indexed)
    return word in indexed


@given(NASTY)
def test_no_word_of_any_text_can_break_the_index(text):
    words = index_words(text)
    assert all(is_ordinary(word) for word in words)
    assert all(len(word) <= LONGEST and not word.endswith("*") for word in words)


@given(NASTY)
def test_the_words_of_a_query_match_the_same_text(text):
    indexed = set(index_words(text))
    assert all(matches(word, indexed) for word in query_words(text))


@given(NASTY)
def test_a_query_has_words_whenever_the_text_has(text):
    assert bool(query_words(text)) == bool(index_words(text))


@given(NASTY)
def test_a_query_has_each_word_once_and_not_too_many(text):
    words = query_words(text * 3)
    assert len(words) == len(set(words)) <= MOST_IN_QUERY


@given(NASTY)
def test_canonically_equal_texts_have_the_same_words(text):
    forms = {tuple(index_words(unicodedata.normalize(form, text))) for form in ("NFC", "NFD")}
    assert forms == {tuple(index_words(text))}


@given(st.text(st.sampled_from("我喜欢编程かなカナ한글สวัสดี"), min_size=2, max_size=30), st.data())
def test_two_characters_inside_a_run_without_blanks_are_found(run, data):
    start = data.draw(st.integers(0, len(run) - 2))
    assert set(query_words(run[start : start + 2])) <= set(index_words(f"x{run}y"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("config.prod.yaml", ["config", "prod", "yaml", "config.prod.yaml"]),
        ("foo::bar", ["foo", "bar", "foo::bar"]),
        ("GB/s", ["gb", "s", "gb/s"]),
        ("C++", ["c", "c++"]),
        ("C#", ["c", "c#"]),
        (".env", ["env", ".env"]),
        ("rm -rf", ["rm", "rf", "-rf"]),
        ("--force", ["forc", "--force"]),
        ("max_conn", ["max", "conn", "max_conn"]),
        ("__init__", ["init", "__init__"]),
        ("user@host", ["user", "host", "user@host"]),
        ("#123", ["123", "#123"]),
        ("well-known", ["well", "known", "well-known"]),
        ("/etc/hosts", ["etc", "host", "/etc/hosts"]),
        ("https://a.io/b?c=1", ["https", "a", "io", "b", "c", "1", "https://a.io/b?c=1"]),
    ],
)
def test_a_name_with_punctuation_gives_its_parts_and_its_whole(text, words):
    assert index_words(text) == words
    assert index_words(f'see ("{text}"),') == ["see", *words]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("getUserName", ["get", "user", "name", "getusernam"]),
        ("HTTPServer", ["http", "server", "httpserver"]),
        ("APIs", ["api"]),
        ("H2O", ["h2o"]),
        ("getUser(name)", ["get", "user", "getus", "name"]),
    ],
)
def test_camel_case_gives_its_parts_and_its_whole(text, words):
    assert index_words(text) == words


def test_a_camel_case_name_is_found_in_lower_case():
    assert set(query_words("getusername github")) <= set(index_words("getUserName on GitHub"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("5432", ["5432"]),
        ("1,000", ["1", "000", "1,000"]),
        ("3.14", ["3", "14", "3.14"]),
        ("2026-01-31", ["2026", "01", "31", "2026-01-31"]),
    ],
)
def test_numbers_and_dates_are_found_whole_and_in_parts(text, words):
    assert index_words(text) == words


def test_the_punctuation_of_a_sentence_gives_no_words():
    text = "Well... (she said) **no** - 'never', “ever”! Really?"
    assert index_words(text) == ["well", "she", "said", "no", "never", "ever", "realli"]


def test_an_apostrophe_typed_or_typeset_makes_no_difference():
    assert index_words("Caroline's can't") == index_words("Caroline’s can’t") == ["carolin", "cant"]


def test_scripts_without_blanks_are_cut_where_they_border_on_others():
    assert index_words("Python入门。好v2") == ["python", "入门", "门", "好", "v2"]
    assert query_words("Python入门") == ["python", "入门"]


def test_a_single_character_is_asked_for_as_a_beginning():
    assert query_words("门") == ["门*"]


@pytest.mark.parametrize("query", ["入", "门", "程", "门教", "한", "ส", "タワ"])
def test_what_stands_inside_an_unbroken_run_is_found(query):
    right = "Python入门教程 한국어 สวัสดี 東京タワー"
    assert Index("另外一个文本 other", right).find(query) == [right]


def test_words_with_marks_of_other_scripts_stay_whole():
    assert index_words("हिन्दी भाषा") == ["हिन्दी", "भाषा"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("café", "CAFE\u0301"),
        ("naïve", "naive"),
        ("Ёлка", "елка"),
        ("άλφα", "ΑΛΦΑ"),
        ("ﬁne", "fine"),
        ("ＡＢＣ", "abc"),
        ("Straße", "STRASSE"),
        ("co\u00adop", "coop"),
        ("configurations", "configuring"),
    ],
)
def test_forms_of_a_word_meet(one, other):
    assert index_words(one) == index_words(other)


def test_an_emoji_is_a_word_whatever_its_colour():
    assert index_words("so😀👍🏽🇩🇪❤️") == ["so", "😀", "👍", "🇩🇪", "❤"]


def test_stop_words_are_dropped_from_the_query_only():
    assert query_words("What is the name of the dog?") == ["name", "dog"]
    assert "the" in index_words("the dog")


def test_a_query_of_stop_words_keeps_them():
    assert query_words("Who are you?") == ["who", "are", "you"]


@pytest.mark.parametrize("text", ["", " \n", "?!", "...", "*", '"', "\x00", "\ud800", "\u0301"])
def test_a_text_without_a_word_has_none(text):
    assert index_words(text) == query_words(text) == []


@pytest.mark.parametrize(
    ("right", "sibling", "query"),
    [
        ("config.prod.yaml", "config.dev.yaml", "config.prod.yaml"),
        ("foo::bar", "bar of foo", "foo::bar"),
        ("GB/s", "GB and s", "GB/s"),
        ("C++", "C", "c++"),
        ("C#", "C++", "C#?"),
        ("rm -rf", "rm rf", "-rf"),
        ("max_conn", "max conn", "max_conn"),
        ("user@host", "host of user", "user@host"),
        ("#123", "123", "#123"),
        ("a-b", "a b", "a-b"),
        (".env", "env", "the .env"),
        ("/var/log", "/log/var", "/var/log"),
    ],
)
def test_a_name_outranks_what_merely_shares_its_parts(right, sibling, query):
    fillers = [f"something else about {n} things" for n in range(20)]
    found = Index(f"we use {sibling} here", *fillers, f"we use {right} here").find(query)
    assert found[0] == f"we use {right} here"


def test_a_query_of_ten_thousand_characters_keeps_its_first_words():
    words = query_words(" ".join(f"w{n}" for n in range(2000)))
    assert words == [f"w{n}" for n in range(MOST_IN_QUERY)]


def test_threads_stem_alike():
    """The stemmer keeps its word in itself, so two threads in it at once would mix their words."""
    texts = [" ".join(f"bla{chr(97 + n)}{chr(97 + m)}xings" for m in range(26)) for n in range(8)]
    expected = [[word.removesuffix("ings") for word in text.split()] for text in texts]
    found = [[] for _ in texts]
    threads = [
        threading.Thread(target=lambda n=n: found[n].extend(index_words(texts[n])))
        for n in range(len(texts))
    ]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert found == expected


def test_known_words_change_only_with_the_recipe():
    """Whoever has to change the list below raises `WORDS_RECIPE` too."""
    text = (
        "Generously tried 'getUserNames' in config.prod.yaml, don't 再見世界 แมว Ünïcode—😀 v2.0!"
    )
    words = (
        "generous tri get user name getusernam in config prod yaml config.prod.yaml dont"
        " 再見 見世 世界 界 แม มว ว unicod 😀 v2 0 v2.0"
    )
    assert (WORDS_RECIPE, index_words(text)) == (1, words.split())
