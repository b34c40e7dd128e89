"""Old events leave the trail only for an archive, and the trail says so."""

import hashlib
import io

import pytest

from memory_store.contract import Caller, Conflict, Invalid
from memory_store.operations.check import check
from memory_store.operations.retain import Retention, retain
from store.holders import HOLDERS, Hand
from store.whole import ALICE, NAMESPACES, exported, imported, lines_of, populate, silent

OPERATOR = Caller(principal="local", source_client="operator")
DAY = 24 * 3600


@pytest.fixture(params=[name for name, holder in HOLDERS.items() if not holder.served])
def holder(request):
    return HOLDERS[request.param]


@pytest.fixture
def store(backing, clock):
    """Ten days of history, the last of them with one write."""
    populate(backing, clock)
    clock.advance(10 * DAY)
    Hand(backing, ALICE).set("plain", "new")
    clock.advance(3600)
    return backing


@pytest.fixture
def archive(tmp_path):
    return tmp_path / "archive.jsonl"


@pytest.fixture
def keep(store, archive, clock):
    def keep(days, *, file=archive, versions=False):
        retention = Retention(days=days, file=file, caller=OPERATOR, versions=versions)
        return retain(store.engine, retention, clock, silent())

    return keep


def events(store, clock):
    return [line for line in lines_of(exported(store, clock)) if line["kind"] == "event"]


def archived(file):
    return lines_of(io.BytesIO(file.read_bytes()))[1:]


def test_what_is_older_goes_into_the_archive_and_nothing_else(store, keep, archive, clock):
    before = events(store, clock)
    report = keep(5)
    left = [event for event in events(store, clock) if event["event"] != "retain"]

    assert archived(archive) + left == before
    assert [event["key"] for event in left] == ["plain"]
    assert report.events == len(before) - 1
    assert str(archive) in report.sentences()[0]


def test_the_trail_of_each_namespace_says_who_how_many_until_when_and_where_to(
    store, keep, archive
):
    report = keep(5)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    told = [Hand(store, ALICE, namespace).events()[0] for namespace in NAMESPACES]

    for event, namespace in zip(told, NAMESPACES, strict=True):
        assert (event.kind, event.source_client) == ("retain", "operator")
        assert event.detail == {
            "events": sum(line["namespace"] == namespace for line in archived(archive)),
            "until": "2026-01-06T01:00:30.033Z",
            "archive": "archive.jsonl",
            "sha256": digest,
        }
    assert report.sha256 == digest
    assert sum(event.detail["events"] for event in told) == report.events


def test_facts_and_versions_stay_as_they_are(store, keep, clock):
    def facts():
        return [line for line in lines_of(exported(store, clock)) if line["kind"] != "event"][1:]

    before = facts()
    keep(1)

    assert facts() == before
    assert check(store.engine, silent()).findings == ()


def test_replaced_versions_go_only_when_asked_and_never_the_newest(store, keep, archive, clock):
    before = [line for line in lines_of(exported(store, clock)) if line["kind"] == "version"]
    newest = {(line["namespace"], line["key"]): line["version"] for line in before}
    replaced_an_hour_ago = ("default", "plain", newest["default", "plain"] - 1)
    report = keep(1, versions=True)
    after = [line for line in lines_of(exported(store, clock)) if line["kind"] == "version"]
    gone = [line for line in archived(archive) if line["kind"] == "version"]

    assert {(line["namespace"], line["key"], line["version"]) for line in after} == {
        replaced_an_hour_ago,
        *((*place, version) for place, version in newest.items()),
    }
    assert len(gone) + len(after) == len(before)
    assert report.versions == len(gone)
    assert check(store.engine, silent()).findings == ()
    assert Hand(store, ALICE).set("NULL").version == newest["default", "NULL"] + 1


def test_an_archive_can_be_imported_again(store, keep, archive, clock):
    before = lines_of(exported(store, clock))
    keep(1, versions=True)
    with archive.open("rb") as file:
        report = imported(store, file, clock)
    after = lines_of(exported(store, clock))

    assert report.is_good
    assert [line for line in before if line["kind"] in ("version", "fact")] == [
        line for line in after if line["kind"] in ("version", "fact")
    ]
    assert all(line in after for line in before[1:])


def test_with_nothing_old_there_is_no_archive_and_no_event(store, keep, archive, clock):
    before = exported(store, clock).getvalue()
    report = keep(30)

    assert exported(store, clock).getvalue() == before
    assert not archive.exists()
    assert report.sentences() == ["nothing is older than 2025-12-12T01:00:30.033Z"]


def test_events_that_tell_of_a_retention_are_kept_for_ever(store, keep, archive, clock, tmp_path):
    keep(5)
    clock.advance(100 * DAY)
    keep(5, file=tmp_path / "second.jsonl")

    assert [event["event"] for event in events(store, clock)] == ["retain"] * 4
    assert len(archived(tmp_path / "second.jsonl")) == 1
    assert archive.exists()


def test_an_archives_name_that_is_taken_deletes_nothing(store, keep, archive, clock):
    before = exported(store, clock).getvalue()
    archive.write_text("precious")
    with pytest.raises(Conflict, match="exists already"):
        keep(5)

    assert exported(store, clock).getvalue() == before
    assert archive.read_text() == "precious"


@pytest.mark.parametrize("days", [0, -3])
def test_at_least_a_day_is_kept(keep, days):
    with pytest.raises(Invalid, match="--days must be 1 or more"):
        keep(days)
