"""Search takes whatever a person types, ranks what is there now, and says how it did."""

import operator
import unicodedata
from array import array

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fakes import FakeEmbedder
from memory_store.changes import text_to_embed
from store.holders import Hand, Meaning

TYPED = [
    *['"', '""', '"unclosed', "'", "it's", "AND", "OR", "NOT (", "a AND", "NEAR(a b, 5)", "NEAR"],
    *["*", "a*", "*a", "^a", "col:x", "words : x", "ns:x", "-", "a-b", "--", "-a", "+", "a+b", "("],
    *[")", "((", "{a b}", "[x]", "a.b.c", "C++", "C#", "%", "_", "\\", "/", "a/b", "; DROP TABLE"],
    *[
        "?",
        "!",
        "...",
        "…",
        "👍",
        "👩‍👩‍👧‍👦",
        "🇩🇪🇫",
        "\u200b",
        "\u202e",
        "\ufeff",
        "\x01",
        "\x7f",
        "\n",
    ],
    *[" ", "\t\n", "\u0301", "ا", "日", "日本", "한", "ไทย", "ß", "İ", "ﬁ", "\U0010ffff", "\ufffe"],
    *["x" * 10_000, "word " * 2_000, '" ' * 5_000, "(" * 10_000, "日本" * 5_000, "👍" * 10_000],
    *["a'" * 5_000, "\u0301" * 10_000, "a-" * 5_000, "A1" * 5_000, "the and of", "_" * 10_000],
]


@pytest.fixture
def library(alice):
    writes = [
        alice.write("config.prod.yaml", "the file of production"),
        alice.write("config.test.yaml", "the file of testing"),
        alice.write("foo::bar", "a path in Rust", tags=("rust",)),
        alice.write("foo::baz", "another path in Rust"),
        alice.write("disk", "reads 3 GB/s, writes 2 GB/s"),
        alice.write("net", "reads 10 Gb/s"),
        alice.write("errors/E1234", "connection lost"),
        alice.write("errors/E1235", "connection refused"),
        alice.write("deploy/db-port", "5432"),
        alice.write("deploy/web-port", "8080"),
        alice.write("flag", "--dry-run shows what would happen"),
        alice.write("lang", "C++ is compiled, C# too"),
        alice.write("emoji", "shipped 🚀"),
    ]
    alice.store.fact_set_many(alice.caller, writes)
    return alice


@pytest.mark.parametrize("text", TYPED, ids=range(len(TYPED)))
def test_whatever_a_person_types_is_no_error(library, text):
    result = library.search(text, limit=100)

    assert result.mode == "lexical"
    assert all(0 <= hit.score <= 1 for hit in result.hits)


@settings(
    derandomize=True,
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1))
def test_any_text_can_be_stored_and_asked_for(alice, text):
    alice.set("k", text)

    assert set(alice.found(text, tags=())) <= {"k"}


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("config.prod.yaml", "config.prod.yaml"),
        ("where is config.test.yaml?", "config.test.yaml"),
        ("foo::bar", "foo::bar"),
        ("GB/s", "disk"),
        ("what does E1235 mean", "errors/E1235"),
        ("db-port", "deploy/db-port"),
        ("5432", "deploy/db-port"),
        ("--dry-run", "flag"),
        ("C++", "lang"),
        ("🚀", "emoji"),
        ("PRODUCTION file", "config.prod.yaml"),
        ("writes reads", "disk"),
        ("refusing connections", "errors/E1235"),
    ],
)
def test_the_fact_that_is_meant_comes_first(library, text, key):
    assert library.found(text)[0] == key


@pytest.mark.parametrize("text", ["the", "and of the", "???", "' \" -", "zzzz"])
def test_a_query_that_no_fact_answers_finds_nothing(alice, text):
    alice.set("k", "some words")

    assert alice.found(text) == []


UNSPACED = [
    ("我们明天去北京开会讨论预算", "北京"),
    ("我们明天去北京开会讨论预算", "预算"),
    ("我们明天去北京开会讨论预算", "我"),
    ("会議は東京タワーで行われます", "東京"),
    ("会議は東京タワーで行われます", "タワー"),
    ("서울에서는 회의가 열립니다", "서울"),
    ("서울에서는 회의가 열립니다", "회의"),
    ("เราจะไปประชุมที่กรุงเทพพรุ่งนี้", "กรุงเทพ"),
    ("server在北京的IP是10.0.0.1", "北京"),
]


@pytest.mark.parametrize(("value", "text"), UNSPACED)
def test_a_word_inside_a_run_without_blanks_is_found(alice, value, text):
    alice.set("other", "完全不同的内容 別のこと 다른 것 อื่น")
    alice.set("meant", value)

    assert alice.found(text)[:1] == ["meant"]


@pytest.mark.parametrize("stored", ["NFC", "NFD"])
@pytest.mark.parametrize("asked", ["NFC", "NFD", "NFKC", "NFKD"])
@pytest.mark.parametrize("word", ["Zürich", "café", "서울", "が", "Å", "Việt"])
def test_composed_and_decomposed_forms_find_each_other(alice, word, stored, asked):
    alice.set("k", f"we met in {unicodedata.normalize(stored, word)} last year")

    assert alice.found(unicodedata.normalize(asked, word)) == ["k"]


def test_keys_and_tags_are_found_too(alice):
    alice.set("billing/invoice", "nothing", tags=("quarterly report",))

    assert alice.found("invoice") == alice.found("quarterly") == ["billing/invoice"]


def test_an_update_leaves_no_old_word_and_no_old_vector(alice, meaning):
    alice.set("k", "zebra", tags=("striped",))
    alice.set("other", "unrelated")
    meaning.catch_up()
    alice.set("k", "giraffe", tags=("tall",))

    assert alice.found("zebra") == alice.found("striped") == []
    assert alice.found("giraffe") == alice.found("tall") == ["k"]
    hits = {hit.fact.key: hit for hit in alice.search(**meaning.query("zebra")).hits}
    assert "k" not in hits or hits["k"].cosine is None
    meaning.catch_up()
    hits = {hit.fact.key: hit for hit in alice.search(**meaning.query("zebra")).hits}
    assert hits["k"].cosine == pytest.approx(0, abs=0.01)
    assert alice.search(**meaning.query("giraffe")).hits[0].fact.key == "k"


@pytest.mark.parametrize("mode", ["hybrid", "semantic", "lexical"])
def test_a_deletion_leaves_nothing_to_find(alice, meaning, mode):
    alice.set("k", "zebra")
    alice.set("stays", "zebra too")
    meaning.catch_up()
    asked = meaning.query("zebra")
    assert sorted(alice.found(**asked, mode=mode)) == ["k", "stays"]
    alice.delete("k")

    assert alice.found(**asked, mode=mode) == ["stays"]


@pytest.mark.parametrize("mode", ["hybrid", "semantic", "lexical"])
def test_an_expired_fact_vanishes_at_once(alice, meaning, clock, mode):
    for number in range(10):
        alice.set(f"k{number}", "zebra", ttl_seconds=60)
    alice.set("stays", "zebra crossing")
    meaning.catch_up()
    asked = meaning.query("zebra")
    assert len(alice.found(**asked, mode=mode, limit=20)) == 11
    clock.advance(60)

    assert alice.found(**asked, mode=mode, limit=1) == ["stays"]


@pytest.mark.parametrize("mode", ["hybrid", "lexical"])
def test_a_fact_that_awaits_its_vector_is_found_by_its_words_and_says_so(alice, meaning, mode):
    alice.set("old", "zebra")
    meaning.catch_up()
    alice.set("new", "zebra foal")
    hits = {hit.fact.key: hit for hit in alice.search(**meaning.query("zebra"), mode=mode).hits}

    assert {key: hit.fact.index for key, hit in hits.items()} == {"old": "ready", "new": "pending"}
    assert hits["new"].cosine is None
    assert hits["new"].lexical > 0


def test_meaning_alone_does_not_know_a_fact_that_awaits_its_vector(alice, meaning):
    alice.set("old", "zebra")
    meaning.catch_up()
    alice.set("new", "zebra foal")

    assert alice.found(**meaning.query("zebra"), mode="semantic") == ["old"]


def test_without_a_vector_every_mode_is_lexical(alice, meaning):
    alice.set("k", "zebra")
    meaning.catch_up()
    asked = meaning.query("zebra")

    for mode in ("hybrid", "semantic", "lexical"):
        result = alice.search("zebra", mode=mode)
        assert (result.mode, [hit.cosine for hit in result.hits]) == ("lexical", [None])
        result = alice.search(**asked | {"model": "another"}, mode=mode)
        assert (result.mode, [hit.cosine for hit in result.hits]) == ("lexical", [None])
        assert alice.search(**asked, mode=mode).mode == mode


def test_the_parts_of_a_score_are_told_and_make_the_whole(alice, meaning):
    for key, value in (("a", "zebra"), ("b", "zebra zebra horse"), ("c", "horse donkey mule")):
        alice.set(key, value)
    meaning.catch_up()
    asked = meaning.query("zebra")

    hybrid = alice.search(**asked).hits
    assert [hit.fact.key for hit in hybrid][-1] == "c"
    for hit in hybrid:
        whole = 0.7 * max(hit.cosine, 0) + 0.3 * (hit.lexical or 0)
        assert hit.score == pytest.approx(whole, abs=1e-6)
    assert max(hit.lexical or 0 for hit in hybrid) == pytest.approx(1)
    for hit in alice.search(**asked, mode="semantic").hits:
        assert (hit.score, hit.lexical) == (pytest.approx(max(hit.cosine, 0), abs=1e-6), None)
    for hit in alice.search(**asked, mode="lexical").hits:
        assert (hit.score, hit.cosine) == (hit.lexical, None)


def test_hits_are_best_first_and_no_more_than_asked_for(alice, meaning):
    for number in range(30):
        alice.set(f"k{number}", "zebra " * (number % 5 + 1) + "horse " * (number % 7))
    meaning.catch_up()
    for mode in ("hybrid", "semantic", "lexical"):
        hits = alice.search(**meaning.query("zebra horse"), mode=mode, limit=7).hits
        scores = [hit.score for hit in hits]
        assert len(scores) == 7
        assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("mode", ["hybrid", "semantic", "lexical"])
def test_what_scores_too_little_is_left_out(alice, meaning, mode):
    for number in range(20):
        alice.set(f"k{number}", "zebra " * (number % 5) + "horse " * (number % 3) + f"word{number}")
    meaning.catch_up()
    asked = meaning.query("zebra")
    hits = alice.search(**asked, mode=mode, limit=100).hits
    least = (hits[0].score + hits[-1].score) / 2

    kept = alice.search(**asked, mode=mode, limit=100, min_score=least).hits
    assert kept == tuple(hit for hit in hits if hit.score >= least)
    assert 0 < len(kept) < len(hits)
    assert alice.found(**asked, mode=mode, min_score=0, limit=100) == [hit.fact.key for hit in hits]


FACTS = 2000
EVERY = 100


@pytest.fixture
def crowd(alice, meaning):
    """Two thousand facts, of which one in a hundred is marked, by tag and by prefix, and worst."""
    for start in range(0, FACTS, 100):
        alice.store.fact_set_many(
            alice.caller, [crowd_write(alice, number) for number in range(start, start + 100)]
        )
    meaning.catch_up()
    return alice


def crowd_write(hand, number):
    marked = number % EVERY == 7
    words = "zebra " + ("horse mule donkey " * (number // EVERY + 1) if marked else "")
    return hand.write(
        f"rare%/{number}" if marked else f"rare_/{number}",
        words.strip(),
        tags=("all", "rare") if marked else ("all",),
    )


def nearness(embedder, fact, text):
    """The cosine of a fact's best window, by the definition."""
    query = array("f", embedder.embed([text])[0])
    windows = embedder.embed(embedder.windows(text_to_embed(fact.key, fact.value)))
    return max(sum(map(operator.mul, query, array("f", window))) for window in windows)


def test_a_filter_for_one_in_a_hundred_returns_the_true_best(crowd, meaning):
    asked = meaning.query("zebra")
    marked = [f"rare%/{number}" for number in range(7, FACTS, EVERY)]
    for narrowing in ({"tags": ("rare",)}, {"prefix": "rare%/"}, {"tags": ("all", "rare")}):
        for mode in ("hybrid", "semantic", "lexical"):
            every = crowd.search(**asked, mode=mode, limit=100, **narrowing).hits
            assert sorted(hit.fact.key for hit in every) == sorted(marked)
            best = crowd.search(**asked, mode=mode, limit=10, **narrowing).hits
            assert best == every[:10]
            assert not set(marked) & set(crowd.found(**asked, mode=mode, limit=100))
        true = sorted(
            (nearness(meaning.embedder, hit.fact, "zebra") for hit in every), reverse=True
        )
        nearest = crowd.search(**asked, mode="semantic", limit=10, **narrowing).hits
        assert [hit.cosine for hit in nearest] == pytest.approx(true[:10], abs=1e-5)


def test_filters_take_any_text_literally(alice, meaning):
    alice.set("a%b", "zebra", tags=("x'y",))
    alice.set("a_b", "zebra", tags=("x%",))
    alice.set("axb", "zebra", tags=("x",))
    meaning.catch_up()
    for asked in ({"text": "zebra"}, meaning.query("zebra")):
        assert alice.found(**asked, prefix="a%") == ["a%b"]
        assert alice.found(**asked, prefix="a_") == ["a_b"]
        assert alice.found(**asked, tags=("x%",)) == ["a_b"]
        assert alice.found(**asked, tags=("x'y",), prefix="a") == ["a%b"]
        assert alice.found(**asked, tags=("x'y", "x")) == []


def test_the_last_sentence_of_a_long_value_is_found(alice, meaning):
    filler = " ".join(f"sentence number {number} is about gardening." for number in range(150))
    alice.set("long", f"{filler} The vault opens with a zebra whistle.")
    alice.set("half", "zebra gardening")
    meaning.catch_up()
    asked = meaning.query("the vault opens with a zebra whistle")
    best = alice.search(**asked, mode="semantic").hits[0]

    assert best.fact.key == "long"
    assert best.cosine == pytest.approx(
        nearness(meaning.embedder, best.fact, asked["text"]), abs=1e-5
    )
    assert alice.found(**asked)[0] == "long"
    assert alice.found("vault whistle") == ["long"]


def test_namespaces_are_ranked_apart(store, caller):
    home, work = Hand(store, caller, "home"), Hand(store, caller, "work")
    meaning = Meaning(store, FakeEmbedder())
    home.set("k", "zebra")
    work.set("k", "zebra zebra")
    work.set("l", "zebra horse")
    meaning.catch_up()

    for mode in ("hybrid", "semantic", "lexical"):
        hits = home.search(**meaning.query("zebra"), mode=mode).hits
        assert [(hit.fact.namespace, hit.fact.key) for hit in hits] == [("home", "k")]
    assert Hand(store, caller, "nowhere").found("zebra") == []


def test_a_word_in_most_facts_still_finds_them_when_it_is_all_there_is(alice):
    writes = [alice.write(f"k{number}", "zebra") for number in range(100)]
    alice.store.fact_set_many(alice.caller, writes)
    alice.store.fact_set_many(
        alice.caller, [alice.write(f"l{number}", "zebra") for number in range(50)]
    )
    alice.set("rare", "zebra okapi")

    assert alice.found("zebra", limit=3) != []
    assert alice.found("zebra okapi", limit=1) == ["rare"]


def test_an_accidental_word_does_not_outweigh_the_right_meaning(alice):
    """The query's own vector is that of the right fact; the other only shares a common word."""
    embedder = FakeEmbedder()
    meaning = Meaning(alice.store, embedder)
    alice.set("heating", "nineteen degrees after ten")
    alice.set("keys", "we keep spare ones downstairs")
    meaning.catch_up()
    (vector,) = embedder.embed(["heating nineteen degrees"])

    question = "how warm do we keep rooms overnight"
    hits = alice.search(question, vector=vector, model=meaning.model).hits

    assert [hit.fact.key for hit in hits] == ["heating", "keys"]
    assert hits[1].lexical < 0.5


def test_the_more_of_a_question_a_fact_covers_the_more_its_words_count(alice, meaning):
    alice.set("one", "zebra")
    alice.set("both", "zebra horse")
    meaning.catch_up()
    lexical = {
        hit.fact.key: hit.lexical for hit in alice.search(**meaning.query("zebra horse")).hits
    }

    assert lexical["both"] == pytest.approx(1)
    assert lexical["one"] < 0.5


def test_a_fact_that_awaits_its_vector_ranks_by_its_words(alice, meaning):
    for number in range(10):
        alice.set(f"old{number}", f"zebra foal {number}")
    meaning.catch_up()
    alice.set("new", "zebra foal unicorn")

    assert alice.found(**meaning.query("zebra foal unicorn"), limit=3)[0] == "new"


def test_a_search_says_how_many_facts_meaning_does_not_know_yet(alice, meaning):
    alice.set("old", "zebra")
    meaning.catch_up()
    alice.set("new", "foal")
    alice.set("newer", "mare")
    asked = meaning.query("zebra")

    assert alice.search(**asked).pending == 2
    assert alice.search(**asked, mode="semantic").pending == 2
    assert alice.search(**asked, mode="lexical").pending == 0
    meaning.catch_up()
    assert alice.search(**asked).pending == 0
