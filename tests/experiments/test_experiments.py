"""The experiments on small numbers, and a command that fails with any of them."""

import dataclasses

import pytest

pytest.importorskip("memory_gateway.main", reason="needs the extra `server`")

from bench.figures import machine, percentile
from experiments import __main__ as command
from experiments import contention, latency, meaning, racing
from experiments.findings import ExperimentError, Finding, Sizes, page
from experiments.serving import site
from memory_bridge.errors import ClientError

SMALL = Sizes(overwrites=2, writes=15, facts=20, calls=20)
HEADROOM = 4
HOLDS = Finding("a", "b", "c", holds=True, by_hand="d")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    with site(tmp_path_factory.mktemp("experiments")) as place:
        yield place


@pytest.mark.parametrize("name", sorted({*command.EXPERIMENTS} - {"latency"}))
def test_an_experiment_holds_on_small_numbers(place, name):
    found = command.attempted(name, place, SMALL)
    assert found.holds, found
    assert found.found
    assert found.by_hand


def test_warm_calls_at_200_facts_stay_within_their_limits(place):
    times = latency.timed(place, dataclasses.replace(SMALL, facts=200))
    assert {tool: len(taken) for tool, taken in times.items()} == dict.fromkeys(
        latency.LIMITS_MS, SMALL.calls
    )
    for tool, limit in latency.LIMITS_MS.items():
        assert percentile(times[tool], 50) <= HEADROOM * limit, tool


def test_a_call_beyond_its_limit_does_not_hold():
    within = {"memory_set": [99.0] * 100, "memory_search": [49.0] * 100}
    assert latency.judged(within, SMALL).holds
    assert not latency.judged(within | {"memory_search": [51.0] * 100}, SMALL).holds


@pytest.mark.parametrize(("errors", "counted", "others"), [(1, 30, 15), (0, 29, 15), (0, 30, 14)])
def test_an_error_or_a_lost_update_does_not_hold(errors, counted, others):
    tally = {"written": 15, "refused": 9, "errors": 0}
    by = contention.Counter({"raw-client": 15, "official-sdk": others})
    found = contention.judged([tally, tally | {"errors": errors}], counted, by, SMALL.writes)
    assert not found.holds


def test_a_value_of_the_race_that_went_unseen_does_not_hold():
    def told(version, name, last):
        ended = {"client": last, "lived_ms": 5.0}
        event = {"version": version, "source_client": name, "principal": f"token:{name}"}
        return {"event": event, "overwritten": ended}

    names = [*racing.EVERY, *racing.EVERY, *racing.EVERY]
    seen = [told(number, name, names[number]) for number, name in enumerate(names[1:])]
    assert racing.judged(seen, SMALL.overwrites).holds
    assert not racing.judged([*seen[:2], *seen[3:]], 1).holds


def test_no_question_shares_a_word_with_a_fact():
    stored = meaning.known(Sizes().facts)
    assert len(stored) == Sizes().facts
    assert [
        asked for _, asked in meaning.ASKED.values() if meaning.shared_words(asked, stored)
    ] == []
    assert meaning.shared_words("Pizza, now!", {"a_pizza": "b"}) == {"pizza"}


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Has these experiments made instead; returns the exit code, and the page if it was written."""

    def write(**experiments):
        monkeypatch.setattr(command, "EXPERIMENTS", experiments)
        monkeypatch.setattr(command, "site", lambda _folder: pytest.MonkeyPatch.context())
        file = tmp_path / "results.md"
        return command.main(SMALL, file), file.read_text() if file.exists() else None

    return write


def raising(error):
    def experiment(_site, _sizes):
        raise error

    return experiment


def test_what_holds_is_written_on_the_page(written):
    code, text = written(good=lambda _site, _sizes: HOLDS)
    assert code == 0
    assert "| a | b | c | yes |" in text
    assert "```sh\nd\n```" in text


def test_what_does_not_hold_fails_the_command_and_leaves_the_page_alone(written, capsys):
    missed = dataclasses.replace(HOLDS, subject="wrong", holds=False)
    assert written(good=lambda _site, _sizes: HOLDS, bad=lambda _site, _sizes: missed) == (1, None)
    assert "Does not hold: wrong." in capsys.readouterr().out


@pytest.mark.parametrize(
    "error", [ExperimentError("no"), ClientError("no"), AssertionError("no"), OSError("no")]
)
def test_what_breaks_off_fails_the_command_after_the_others(written, capsys, error):
    code, text = written(bad=raising(error), good=lambda _site, _sizes: HOLDS)
    assert (code, text) == (1, None)
    said = capsys.readouterr().out
    assert "broke off: no" in said
    assert "\n\na\n" in said


def test_the_page_tells_of_the_machine_and_that_the_front_is_a_stand_in():
    text = page([HOLDS], machine())
    assert "- cores: " in text
    assert "not Tailscale's Funnel" in text
