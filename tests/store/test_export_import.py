"""What leaves a store as lines comes back the same, once, and says who brought it."""

import io
import json
import re

import pytest

from memory_store.contract import Conflict, Invalid, SearchQuery
from memory_store.operations.check import check
from memory_store.operations.export import export
from memory_store.upkeep import sweep
from store.holders import HOLDERS, Hand
from store.whole import (
    ALICE,
    BOB,
    IMPORTER,
    NAMESPACES,
    NASTY,
    exported,
    file_of,
    imported,
    lines_of,
    populate,
    second_store,
    silent,
    without_imports,
)


@pytest.fixture(params=[name for name, holder in HOLDERS.items() if not holder.served])
def holder(request):
    return HOLDERS[request.param]


@pytest.fixture
def other(holder, tmp_path, clock):
    """A second store, which is empty."""
    with second_store(holder, tmp_path / "second", clock=clock) as store:
        yield store


@pytest.fixture
def full(backing, clock):
    populate(backing, clock)
    return backing


@pytest.fixture
def alice(backing):
    return Hand(backing, ALICE)


@pytest.fixture
def elsewhere(other):
    return Hand(other, BOB)


def test_an_export_into_an_empty_store_is_exported_the_same(full, other, clock):
    first = exported(full, clock)
    clock.advance(60)
    report = imported(other, first, clock)

    assert without_imports(exported(other, clock)) == without_imports(first)
    assert report.is_good
    assert report.counts == {
        what: lines_of(first)[0]["counts"][kind]
        for what, kind in (("events", "event"), ("facts", "fact"), ("versions", "version"))
    }


def test_facts_that_came_by_import_are_found_read_and_written_on(full, other, clock):
    imported(other, exported(full, clock), clock)

    for namespace in NAMESPACES:
        here, there = Hand(full, ALICE, namespace), Hand(other, ALICE, namespace)
        assert there.keys() == here.keys()
        assert there.keys(tags=("all",)) == here.keys(tags=("all",))
        for key in NASTY:
            assert there.get(key) == here.get(key)
            assert there.get(key, at=1) == here.get(key, at=1)
            assert there.set(key).version == here.set(key).version
        assert "long-lived" in there.found("stays")
    assert check(other.engine, silent()).findings == ()


def test_an_import_says_who_imported_and_who_wrote(alice, elsewhere, other, backing, clock):
    alice.set("k", "v")
    imported(other, exported(backing, clock), clock)
    brought, written = elsewhere.events("k")

    assert (brought.kind, brought.source_client, brought.value_after) == ("import", "importer", "v")
    assert brought.detail["written_by"] == "alice"
    assert (written.kind, written.source_client) == ("set", "alice")
    assert elsewhere.get("k").source_client == "alice"


def test_an_import_that_is_run_again_changes_nothing(full, other, clock):
    file = exported(full, clock)
    imported(other, file, clock)
    once = exported(other, clock)
    again = imported(other, file, clock)

    assert exported(other, clock).getvalue() == once.getvalue()
    assert set(again.counts) == {"events there already", "facts there already"}


def test_a_stores_own_export_changes_nothing_in_it(full, clock):
    file = exported(full, clock)
    imported(full, file, clock)

    assert exported(full, clock).getvalue() == file.getvalue()


def test_an_import_goes_on_where_one_was_cut_off(full, other, clock):
    file = exported(full, clock)
    whole = file.getvalue()
    for part in (0.2, 0.5, 0.8):
        cut = imported(other, io.BytesIO(whole[: int(len(whole) * part)]), clock)
        assert "ends early" in cut.faults[-1].reason
    report = imported(other, file, clock)

    assert report.is_good
    assert without_imports(exported(other, clock)) == without_imports(file)


def test_a_newer_export_brings_what_is_new_only(alice, elsewhere, backing, other, clock):
    alice.set("grows", "one")
    alice.set("goes", "one")
    imported(other, exported(backing, clock), clock)
    alice.set("grows", "two")
    report = imported(other, exported(backing, clock), clock)

    assert report.counts["versions"] == report.counts["facts"] == report.counts["events"] == 1
    assert elsewhere.get("grows").value == "two"
    assert elsewhere.get("grows", at=1).value == "one"
    assert elsewhere.found("one") == ["goes"]


def test_a_dry_run_says_what_would_be_and_changes_nothing(full, other, elsewhere, clock):
    elsewhere.set("plain", "mine")
    before = exported(other, clock).getvalue()
    file = exported(full, clock)
    rehearsal = imported(other, file, clock, dry_run=True)

    assert exported(other, clock).getvalue() == before
    assert rehearsal.dry_run
    assert "would import" in rehearsal.sentences()[0]
    assert imported(other, file, clock).counts == rehearsal.counts


@pytest.fixture
def in_the_way(alice, elsewhere):
    alice.set("k", "theirs, old")
    alice.set("k", "theirs", tags=("t",))
    alice.set("free", "theirs")
    elsewhere.set("k", "mine")


@pytest.mark.usefixtures("in_the_way")
def test_skip_keeps_what_a_key_holds_with_its_history(backing, other, elsewhere, clock):
    report = imported(other, exported(backing, clock), clock, on_duplicate="skip")

    assert elsewhere.get("k").value == "mine"
    assert [event.kind for event in elsewhere.events("k")] == ["set"]
    assert elsewhere.get("free").value == "theirs"
    assert report.counts["facts kept as they were"] == 1
    assert report.counts["events left out"] == 2


@pytest.mark.usefixtures("in_the_way")
def test_overwrite_makes_the_imported_value_the_next_version(backing, other, elsewhere, clock):
    file = exported(backing, clock)
    report = imported(other, file, clock, on_duplicate="overwrite")

    fact = elsewhere.get("k")
    assert (fact.value, fact.version, fact.tags) == ("theirs", 2, ("t",))
    assert fact.source_client == "alice"
    assert elsewhere.get("k", at=1).value == "mine"
    assert elsewhere.found("mine") == []
    newest = elsewhere.events("k")[0]
    assert (newest.kind, newest.value_before, newest.value_after) == ("import", "mine", "theirs")
    assert report.counts["facts overwritten"] == 1
    assert "facts overwritten" not in imported(other, file, clock, on_duplicate="overwrite").counts


@pytest.mark.usefixtures("in_the_way")
def test_fail_imports_nothing_when_a_key_is_in_the_way(backing, other, clock):
    before = exported(other, clock).getvalue()
    with pytest.raises(Conflict, match=r"1 keys hold something else already, 'k' first; nothing"):
        imported(other, exported(backing, clock), clock, on_duplicate="fail")

    assert exported(other, clock).getvalue() == before


@pytest.mark.parametrize("policy", ["skip", "overwrite", "fail"])
def test_no_policy_minds_keys_that_hold_the_same(full, other, clock, policy):
    file = exported(full, clock)
    imported(other, file, clock, on_duplicate=policy)

    assert set(imported(other, file, clock, on_duplicate=policy).counts) == {
        "events there already",
        "facts there already",
    }


def test_a_fact_deleted_since_comes_back_as_its_next_version(alice, backing, clock):
    alice.set("k", "v")
    file = exported(backing, clock)
    alice.delete("k")
    imported(backing, file, clock)

    assert (alice.get("k").value, alice.get("k").version) == ("v", 2)


def test_a_fact_that_expired_since_does_not_come_back(alice, backing, clock):
    alice.set("k", "v", ttl_seconds=5)
    file = exported(backing, clock)
    clock.advance(10)
    sweep(backing.engine, clock())
    before = exported(backing, clock).getvalue()
    report = imported(backing, file, clock)

    assert report.counts == {"events there already": 1, "facts that have expired": 1}
    assert exported(backing, clock).getvalue() == before


def faulty(lines, kind, **changes):
    return {**next(line for line in lines if line["kind"] == kind), **changes}


FAULTS = [
    (b'{"kind":"version"', "EOF while parsing"),
    (b"\xff\xfe", "Invalid JSON|expected value|valid UTF-8"),
    (b"[]", "object|dictionary"),
    (b'{"kind":"else"}', "does not match any of the expected tags"),
    ("version", {"value": "x" * 20_000}, "value has 20,000 characters; at most 16,384"),
    ("version", {"key": "nul\0"}, "NUL"),
    ("version", {"version": 0}, "greater than or equal to 1"),
    ("version", {"written_at": "yesterday"}, "written_at: "),
    ("version", {"surprise": 1}, "surprise: Extra inputs are not permitted"),
    ("version", {"metadata": {"n": float("nan")}}, "metadata must be a JSON object without NaN"),
    ("fact", {"key": "nobody's"}, 'no version 1 of "nobody\'s" stands before it'),
    ("event", {"event": "dance"}, "event: Input should be"),
    ("header", {}, "a header stands in the first line only"),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: str(fault[:2])[:60])
def test_a_faulty_line_is_named_and_the_others_are_imported(
    alice, elsewhere, backing, other, clock, fault
):
    alice.set("k", "v")
    lines = lines_of(exported(backing, clock))
    wrong = fault[0] if isinstance(fault[0], bytes) else faulty(lines, fault[0], **fault[1])
    report = imported(other, file_of(*lines[:2], wrong, *lines[2:]), clock)

    assert not report.is_good
    assert [told.line for told in report.faults] == [3]
    assert f"line 3: {report.faults[0].reason}" in report.sentences()
    assert re.search(fault[-1], report.faults[0].reason)
    assert elsewhere.get("k").value == "v"
    assert elsewhere.keys() == ["k"]


def test_lost_lines_are_noticed(full, other, clock):
    lines = exported(full, clock).getvalue().splitlines()
    report = imported(other, file_of(*lines[:-2]), clock)

    total = json.loads(lines[0])["counts"]["event"]
    assert report.faults[-1].line is None
    assert f"{total - 2:,} of {total:,} event lines" in report.faults[-1].reason


@pytest.mark.parametrize("content", [b"", b"hello\n", b"{}\n", b'{"type":"cat"}\n', b"\x00" * 99])
def test_a_file_of_another_kind_is_refused(other, clock, content):
    with pytest.raises(Invalid, match="begins neither as an export does"):
        imported(other, io.BytesIO(content), clock)


def test_blank_lines_and_a_mark_at_the_beginning_are_no_fault(full, other, clock):
    first, *rest = exported(full, clock).getvalue().splitlines()
    report = imported(other, file_of(b"\xef\xbb\xbf" + first, b"", *rest, b"  "), clock)

    assert report.is_good
    assert report.counts["facts"] == json.loads(first)["counts"]["fact"]


def test_a_newer_format_is_refused_with_what_to_do(backing, other, clock):
    header, *rest = lines_of(exported(backing, clock))
    with pytest.raises(Invalid, match=r"format version 99.*newer version that wrote it"):
        imported(other, file_of({**header, "format_version": 99}, *rest), clock)


REFERENCE = [
    {"type": "entity", "name": "Ada", "entityType": "person", "observations": ["a", "née Byron"]},
    {"type": "entity", "name": "a/b", "entityType": "path", "observations": []},
    {"type": "relation", "from": "Ada", "to": "a/b", "relationType": "wrote"},
    {"type": "relation", "from": "Ada/a", "to": "b", "relationType": "wrote"},
]


def test_the_reference_servers_file_becomes_facts(other, elsewhere, clock):
    report = imported(other, file_of(*REFERENCE), clock)

    assert report.counts == {"facts": 4}
    assert elsewhere.keys() == [
        "entity/Ada",
        "entity/a/b",
        "relation/Ada%2Fa/wrote/b",
        "relation/Ada/wrote/a%2Fb",
    ]
    assert elsewhere.get("entity/Ada").value == "person\n- a\n- née Byron"
    assert elsewhere.get("entity/Ada").source_client == IMPORTER.source_client
    assert elsewhere.found("Byron") == ["entity/Ada"]
    assert elsewhere.get("relation/Ada/wrote/a%2Fb").metadata == {
        "from": "Ada",
        "relationType": "wrote",
        "to": "a/b",
    }
    assert elsewhere.events("entity/Ada")[0].kind == "import"
    assert check(other.engine, silent()).findings == ()


def test_the_reference_servers_file_keeps_to_policies_and_namespaces(other, clock):
    there = Hand(other, BOB, "old notes")
    there.set("entity/Ada", "mine")
    file = file_of(*REFERENCE, b'{"type":"entity","name":"no type"}')
    report = imported(other, file, clock, namespace="old notes")

    assert there.get("entity/Ada").value == "mine"
    assert report.counts == {"facts": 3, "facts kept as they were": 1}
    assert [(told.line, told.reason) for told in report.faults] == [
        (5, "entityType: Field required")
    ]
    imported(other, file, clock, namespace="old notes", on_duplicate="overwrite")
    assert there.get("entity/Ada").value.startswith("person")


def test_an_export_does_not_see_what_is_written_meanwhile(alice, backing, clock):
    alice.set("k", "v")

    class Writing(io.BytesIO):
        def write(self, data, /):
            alice.set("late", "v")
            return super().write(data)

    out = Writing()
    export(backing.engine, out, clock, silent())
    assert [line["kind"] for line in lines_of(out)] == [
        "header",
        "namespace",
        "version",
        "fact",
        "event",
    ]


def test_vectors_are_made_anew(backing, other, elsewhere, clock, alice):
    alice.set("k", "v")
    imported(other, exported(backing, clock), clock)

    assert elsewhere.get("k").index == "pending"
    query = SearchQuery(text="v")
    assert [hit.fact.key for hit in other.fact_search(BOB, query).hits] == ["k"]
