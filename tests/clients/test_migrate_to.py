"""`memory-bridge migrate-to`, typed as people type it; an address never comes out again."""

import json
import os
from contextlib import closing

import pytest

from memory_bridge import cli

pytest.importorskip("memory_store.operations.main", reason="needs the extra `store`")

from memory_store.contract import Caller, FactWrite
from memory_store.postgres import PostgresEngine
from memory_store.sqlite import SqliteEngine
from memory_store.store import SqlStore
from postgres_server import new_database

ALICE = Caller(principal="p", source_client="alice")
PASSWORD = "hunter2"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in list(os.environ):
        if name.startswith("MCP_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("MCP_MEMORY_DB", str(tmp_path / "memory.db"))
    monkeypatch.chdir(tmp_path)
    with closing(SqlStore(SqliteEngine(tmp_path / "memory.db"))) as store:
        store.fact_set(ALICE, FactWrite(key="sky", value="blue"))
    return tmp_path


@pytest.fixture
def run(folder, capfd):
    assert folder.exists()

    def run(*words):
        code = cli.main(list(words))
        return code, *capfd.readouterr()

    return run


@pytest.fixture
def url():
    """An address with a password, which the server does not ask for."""
    with new_database() as url:
        yield url.replace("postgres@", f"postgres:{PASSWORD}@")


def value(engine):
    with closing(SqlStore(engine)) as store:
        return store.fact_get(ALICE, "default", "sky").value


def test_a_memory_moves_to_postgres_and_back(run, url, folder, monkeypatch):
    code, out, err = run("migrate-to", url)
    assert (code, err) == (0, "")
    assert "fact: 1 row, checksum " in out
    assert "holds 1 namespace, 1 fact, 1 version, 1 event, 0 vectors, 0 tokens, as " in out
    assert value(PostgresEngine(url)) == "blue"

    monkeypatch.delenv("MCP_MEMORY_DB")
    monkeypatch.setenv("MCP_DATABASE_URL", url)
    code, out, err = run("migrate-to", "back.db")
    assert (code, err) == (0, "")
    assert value(SqliteEngine(folder / "back.db")) == "blue"


def test_the_target_is_refused_once_it_holds_something(run, url):
    run("migrate-to", url)
    code, out, err = run("migrate-to", url)
    assert (code, out) == (3, "")
    assert "is not empty" in err


def test_a_dry_run_says_what_would_be_moved(run, url):
    code, out, _ = run("migrate-to", "--dry-run", url)
    assert code == 0
    assert out.startswith("would move 1 namespace, 1 fact, 1 version, 1 event, ")
    assert run("migrate-to", url)[0] == 0


def test_programs_get_both_sides(run):
    answer = json.loads(run("migrate-to", "new.db", "--json")[1])
    (fact,) = (table for table in answer["tables"] if table["name"] == "fact")
    assert fact["origin"] == fact["destination"]
    assert fact["origin"]["rows"] == 1


def test_a_running_server_ends_in_seven(run, url, folder):
    with closing(SqlStore(SqliteEngine(folder / "memory.db"))):
        code, _, err = run("migrate-to", url)
    assert code == 7
    assert "is open in another process; stop its server first" in err


def test_a_backup_of_a_running_one_moves(run, url, folder):
    with closing(SqlStore(SqliteEngine(folder / "memory.db"))):
        run("backup", "copy.db")
        assert run("--db", "copy.db", "migrate-to", url)[0] == 0
    assert value(PostgresEngine(url)) == "blue"


def test_a_server_that_cannot_be_reached_ends_in_six(run):
    target = f"postgresql://somebody:{PASSWORD}@127.0.0.1:1/memory"
    for words in (["migrate-to", target], ["migrate-to", "--dry-run", target]):
        code, out, err = run(*words)
        assert (code, out) == (6, "")
        assert "'memory' on 127.0.0.1 cannot be opened" in err


def test_the_place_where_the_memory_is_already_ends_in_three(run, folder, url, monkeypatch):
    (folder / "link.db").symlink_to("memory.db")
    for target in ("memory.db", "link.db"):
        code, _, err = run("migrate-to", target)
        assert code == 3
        assert "is where the memory is already" in err
    monkeypatch.delenv("MCP_MEMORY_DB")
    monkeypatch.setenv("MCP_DATABASE_URL", url)
    assert run("migrate-to", url)[0] == 3


@pytest.mark.parametrize(
    "target",
    [
        f"mysql://somebody:{PASSWORD}@host/memory",
        f"postgresql:/somebody:{PASSWORD}@host/memory",
        f"postgres:somebody:{PASSWORD}@host/memory",
        f"somebody:{PASSWORD}@host/memory",
        f"host=here dbname=memory password={PASSWORD}",
        f"POSTGRESQL://somebody:{PASSWORD}@host/memory",
        "",
    ],
)
def test_what_is_no_target_is_not_taken_for_a_file(run, folder, target):
    before = sorted(folder.iterdir())
    code, _, err = run("migrate-to", target)
    assert code == 4
    assert "neither an address such as postgresql://" in err
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    "words",
    [
        ["migrate-to", f"postgresql://u:{PASSWORD}@127.0.0.1:1/m"],
        ["migrate-to", f"postgresql://u:{PASSWORD}@[::1/m"],
        ["migrate-to", f"postgresql://u:{PASSWORD}@127.0.0.1:1/m?no_such_option=1"],
        ["migrate-to", f"postgresql://u:{PASSWORD}@127.0.0.1:port/m"],
        ["migrate-to", f"mysql://u:{PASSWORD}@h/m"],
        ["migrate-to", f"postgresql://u:{PASSWORD}@h/m", "--namespace", "n"],
    ],
)
@pytest.mark.parametrize("options", [[], ["--json"], ["--debug"], ["--dry-run"]])
def test_no_error_repeats_the_password(run, words, options):
    code, out, err = run(*words, *options)
    assert code
    assert PASSWORD not in out + err


def test_no_answer_repeats_the_password(run, url):
    for options in (["--dry-run"], ["--dry-run", "--json"], ["--json"], []):
        _, out, err = run("migrate-to", url, *options)
        assert PASSWORD not in out + err


def test_a_second_target_is_wrong_usage_without_the_password(run, capfd):
    address = f"postgresql://u:{PASSWORD}@h/m"
    with pytest.raises(SystemExit) as left:
        run("migrate-to", "a.db", address)
    assert left.value.code == 2
    assert PASSWORD not in "".join(capfd.readouterr())
