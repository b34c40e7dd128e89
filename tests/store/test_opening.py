"""Opening a store: many at once, patiently, and for nobody else to read."""

import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from memory_store.opening import open_store
from memory_store.settings import StoreSettings

AT_ONCE = 8
ROUNDS = 10


@pytest.mark.parametrize("timeout", [0, 5000])
def test_stores_that_open_a_new_file_at_once_all_succeed_whatever_the_timeout(tmp_path, timeout):
    for number in range(ROUNDS):
        settings = StoreSettings(
            memory_db=tmp_path / f"{number}.db", sqlite_busy_timeout=timeout, log_reads=False
        )
        together = threading.Barrier(AT_ONCE)

        def open_together(settings=settings, together=together):
            together.wait(10)
            return open_store(settings)

        with ThreadPoolExecutor(AT_ONCE) as threads:
            opened = [threads.submit(open_together) for _ in range(AT_ONCE)]
        for store in opened:
            store.result().close()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_a_new_database_is_for_its_owner_alone(tmp_path):
    database = tmp_path / "new" / "memory.db"
    before = os.umask(0o022)
    try:
        store = open_store(StoreSettings(memory_db=database))
    finally:
        os.umask(before)
    modes = {
        path.name: stat.S_IMODE(path.stat().st_mode)
        for path in [database.parent, *database.parent.iterdir()]
    }
    store.close()

    assert modes == {
        "new": 0o700,
        "memory.db": 0o600,
        "memory.db-wal": 0o600,
        "memory.db-shm": 0o600,
    }


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_the_modes_of_what_is_already_there_are_its_owners_choice(tmp_path):
    tmp_path.chmod(0o750)
    database = tmp_path / "memory.db"
    database.touch(0o640)
    database.chmod(0o640)
    open_store(StoreSettings(memory_db=database)).close()

    assert stat.S_IMODE(database.stat().st_mode) == 0o640
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o750
