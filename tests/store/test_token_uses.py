"""When a token was last used: noted soon, and never by waiting for the write lock."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from memory_store import upkeep
from memory_store.clock import moment
from memory_store.contract import Busy
from store.office import Office

WAIT_SECONDS = 10


@pytest.fixture
def office(store):
    return Office(store)


@pytest.fixture
def quick_upkeep(monkeypatch):
    monkeypatch.setattr(upkeep, "EVERY_SECONDS", 0.02)


def wait_for(condition):
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.005)


@pytest.mark.usefixtures("quick_upkeep")
def test_the_last_use_is_noted_by_itself(office, clock):
    made = office.create()
    clock.advance(60)
    used = moment(clock())
    assert office.shown(made.secret).last_used_at is None
    wait_for(lambda: office.listed().last_used_at is not None)
    clock.advance(60)

    assert office.listed() == made.token.model_copy(update={"last_used_at": used})
    assert office.shown(made.secret).last_used_at == used
    wait_for(lambda: office.listed().last_used_at == moment(clock()))


def test_what_proves_nothing_is_no_use(office, backing, opened, reach):
    made = office.create()
    office.rotate()
    office.shown(made.secret)
    office.shown("guessed")
    office.store.token_list()
    backing.close()

    assert Office(reach(opened())).listed().last_used_at is None


def test_a_use_that_was_not_yet_noted_is_noted_on_closing(opened, reach, clock):
    first = opened()
    office = Office(reach(first))
    office.shown(office.create().secret)
    first.close()

    assert Office(reach(opened())).listed().last_used_at == moment(clock())


def test_of_several_uses_the_last_counts_whichever_store_notes_it_last(opened, clock):
    here, there = opened(), opened()
    made = Office(here).create()
    Office(here).shown(made.secret)
    clock.advance(60)
    Office(there).shown(made.secret)
    there.close()
    here.close()

    assert Office(opened()).listed().last_used_at == moment(clock())


def test_a_use_that_cannot_be_noted_now_is_noted_later(backing, clock, monkeypatch):
    office = Office(backing)
    office.shown(office.create().secret)

    def refuse(*_job, **_options):
        raise Busy("the database is in use")

    with monkeypatch.context() as broken:
        broken.setattr(backing.engine, "write", refuse)
        with pytest.raises(Busy):
            upkeep.write_uses(backing.engine, backing._uses)
    upkeep.write_uses(backing.engine, backing._uses)

    assert office.listed().last_used_at == moment(clock())


@pytest.mark.usefixtures("quick_upkeep")
def test_verifying_never_waits_for_the_write_lock(office, backing, clock):
    made = office.create()
    held, release = threading.Event(), threading.Event()

    def hold(_session):
        held.set()
        assert release.wait(WAIT_SECONDS)

    with ThreadPoolExecutor(1) as threads:
        holding = threads.submit(backing.engine.write, hold)
        assert held.wait(WAIT_SECONDS)
        for _ in range(20):
            assert office.shown(made.secret).last_used_at is None
        assert not holding.done()
        release.set()
        holding.result()

    wait_for(lambda: office.listed().last_used_at == moment(clock()))
