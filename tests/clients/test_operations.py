"""The commands on a whole store, typed as people type them, on a file of their own."""

import io
import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from memory_bridge import cli

pytest.importorskip("memory_store.operations.main", reason="needs the extra `store`")

from memory_store.contract import Caller, FactWrite
from memory_store.sqlite import SqliteEngine
from memory_store.store import SqlStore
from postgres_server import new_database

ALICE = Caller(principal="p", source_client="alice")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in list(os.environ):
        if name.startswith("MCP_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("MCP_MEMORY_DB", str(tmp_path / "memory.db"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def memory(folder):
    """Opens the store for as long as a test says."""
    return lambda name="memory.db": closing(SqlStore(SqliteEngine(folder / name)))


@pytest.fixture
def filled(memory):
    with memory() as store:
        store.fact_set(ALICE, FactWrite(key="sky", value="grey"))
        store.fact_set(ALICE, FactWrite(key="sky", value="blue"))
    return memory


@pytest.fixture
def run(folder, capfd):
    assert Path.cwd() == folder

    def run(*words):
        code = cli.main(list(words))
        return code, *capfd.readouterr()

    return run


def value(memory, name="memory.db"):
    with memory(name) as store:
        fact = store.fact_get(ALICE, "default", "sky")
        return fact and fact.value


def test_a_backup_is_made_said_and_put_back(run, filled):
    code, out, err = run("backup", "a.backup")
    assert (code, err) == (0, "")
    assert out.startswith("a.backup holds 1 namespace, 1 fact, 2 versions, 2 events")
    with filled() as store:
        store.fact_set(ALICE, FactWrite(key="sky", value="black"))

    code, out, _ = run("restore", "a.backup")
    assert code == 0
    assert "what was there before is now" in out
    assert value(filled) == "blue"


@pytest.mark.usefixtures("filled")
def test_an_existing_file_ends_in_three_unless_forced(run, folder):
    (folder / "a.backup").touch()
    code, out, err = run("backup", "a.backup")
    assert (code, out) == (3, "")
    assert "say --force" in err
    assert run("backup", "a.backup", "--force")[0] == 0


@pytest.mark.usefixtures("filled")
def test_restore_with_two_words_is_about_a_fact(run, monkeypatch):
    monkeypatch.setenv("MCP_EMBEDDINGS", "off")
    code, out, _ = run("restore", "sky", "1")
    assert (code, out) == (0, "sky is at version 3\n")


@pytest.mark.usefixtures("filled")
def test_restore_with_one_word_that_is_no_file_says_what_may_have_been_meant(run):
    code, _, err = run("restore", "sky")
    assert code == 1
    assert "to restore a fact, name its version too" in err


def test_restore_explains_both_of_its_forms(run, capfd):
    with pytest.raises(SystemExit):
        run("restore", "--help")
    out = capfd.readouterr().out
    assert "KEY VERSION" in out
    assert "FILE" in out


def test_restore_under_an_open_store_ends_in_seven(run, filled):
    run("backup", "a.backup")
    with filled():
        code, _, err = run("restore", "a.backup")
    assert code == 7
    assert "stop its server first" in err


def test_a_file_that_is_no_backup_ends_in_four(run, filled, folder):
    (folder / "letter").write_text("Dear diary")
    assert run("restore", "letter")[0] == 4
    assert value(filled) == "blue"


def test_a_pipe_carries_an_export_into_another_store(run, filled, folder, monkeypatch):
    code, out, err = run("export", "-")
    assert (code, err) == (0, "exported 1 namespace, 2 versions, 1 fact, 2 events\n")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(out.encode())))
    code, out, _ = run("--db", "other.db", "import", "-", "--client-id", "operator")
    assert (code, out) == (0, "imported 2 events, 1 fact, 2 versions\n")
    assert value(filled, "other.db") == "blue"
    with filled("other.db") as store:
        newest = store.event_list("default", "sky").events[0]
    assert (newest.kind, newest.source_client) == ("import", "operator")
    assert (folder / "other.db").exists()


def test_json_is_for_programs(run, filled):
    assert json.loads(run("export", "a.jsonl", "--json")[1])["counts"]["fact"] == 1
    assert json.loads(run("--json", "backup", "a.backup")[1])["held"]["facts"] == 1
    assert json.loads(run("check", "--json")[1])["findings"] == []
    code, out, _ = run("backup", "a.backup", "--json")
    assert (code, json.loads(out)["problem"]["code"]) == (3, "conflict")
    assert value(filled) == "blue"


@pytest.mark.usefixtures("filled")
def test_a_dry_run_makes_no_store(run, folder):
    run("export", "a.jsonl")
    code, _, err = run("import", "a.jsonl", "--dry-run", "--db", "new.db")
    assert code == 1
    assert "there is no memory at new.db" in err
    assert not (folder / "new.db").exists()
    code, out, _ = run("import", "a.jsonl", "--dry-run")
    assert (code, out) == (
        0,
        "would import nothing\n2 events there already, 1 fact there already\n",
    )


def test_faulty_lines_end_in_one(run, folder):
    entity = {"type": "entity", "name": "Ada", "entityType": "person", "observations": ["née"]}
    (folder / "memory.jsonl").write_text(f'{json.dumps(entity)}\n{{"type":"entity"\n')
    code, out, _ = run("import", "memory.jsonl", "--namespace", "old")
    assert code == 1
    assert out.splitlines()[0] == "imported 1 fact"
    assert out.splitlines()[1].startswith("line 2: ")


def test_policies_are_taken_by_name(run, filled, memory):
    run("export", "a.jsonl")
    with memory("other.db") as store:
        store.fact_set(ALICE, FactWrite(key="sky", value="mine"))
    assert run("import", "a.jsonl", "--db", "other.db", "--on-duplicate", "fail")[0] == 3
    run("import", "a.jsonl", "--db", "other.db", "--on-duplicate", "overwrite")
    assert value(filled, "other.db") == "blue"
    with pytest.raises(SystemExit):
        run("import", "a.jsonl", "--on-duplicate", "guess")


def test_what_check_finds_ends_in_one_until_it_is_repaired(run, filled):
    with filled() as store:
        store.engine.write(lambda session: session.run("DELETE FROM change"))
    assert run("check")[0] == 1
    code, out, _ = run("check", "--repair")
    assert code == 0
    assert "; repaired" in out
    assert run("check") == (0, "nothing is wrong\n", "")


def test_retain_archives_beside_the_database(run, filled, folder):
    with filled() as store:
        store.engine.write(lambda session: session.run("UPDATE event SET at = 1"))
    code, out, _ = run("retain", "--days", "30", "--client-id", "operator")
    assert code == 0
    (archive,) = folder.glob("memory.db.archived-*.jsonl")
    assert "2 events, 0 versions" in out
    assert len(archive.read_text().splitlines()) == 3
    with filled() as store:
        (event,) = store.event_list("default").events
    assert (event.kind, event.source_client) == ("retain", "operator")
    assert run("retain", "--days", "0")[0] == 4


@pytest.mark.parametrize(
    "words", [["backup", "f"], ["restore", "f"], ["export", "-"], ["check"], ["retain", "--days=1"]]
)
def test_without_a_store_nothing_is_made(run, folder, words):
    assert run(*words)[0] == 1
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("option", ["--url=http://x", "--token=t", "--timeout=3", "--namespace=n"])
def test_an_option_that_has_no_place_is_wrong_usage(run, option):
    code, _, err = run("check", option)
    assert code == 2
    assert f"check works on the store itself, so {option.partition('=')[0]} has no place" in err


def test_a_bad_setting_is_wrong_usage(run, monkeypatch):
    monkeypatch.setenv("MCP_SQLITE_BUSY_TIMEOUT", "soon")
    code, _, err = run("check")
    assert code == 2
    assert "MCP_SQLITE_BUSY_TIMEOUT must be" in err


@pytest.mark.usefixtures("folder")
def test_without_the_extra_it_says_how_to_get_it(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "memory_store.operations.main", None)
    code, _, err = run("check")
    assert code == 6
    assert "pip install 'mcp-memory-bridge[server]'" in err


@pytest.mark.usefixtures("filled")
def test_a_folder_that_is_missing_is_a_sentence(run):
    code, _, err = run("backup", "no/such/folder/a.backup")
    assert code == 6
    assert "No such file or directory" in err


@pytest.mark.usefixtures("filled")
def test_a_reader_that_has_gone_is_no_noise(filled):
    with filled() as store:
        for number in range(20):
            store.fact_set(ALICE, FactWrite(key=f"k{number}", value="x" * 16_000))
    command = [sys.executable, "-m", "memory_bridge", "export", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_the_whole_goes_through_the_command_itself(filled, folder):
    command = [Path(sys.executable).with_name("memory-bridge"), "backup", "a.backup"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert value(filled) == value(filled, "a.backup") == "blue"
    assert (folder / "a.backup").exists()


def test_a_store_on_postgres_is_operated_the_same(run, filled, folder, monkeypatch):
    run("export", "a.jsonl")
    with new_database() as url:
        monkeypatch.delenv("MCP_MEMORY_DB")
        monkeypatch.setenv("MCP_DATABASE_URL", url)
        assert run("import", "a.jsonl")[1] == "imported 2 events, 1 fact, 2 versions\n"
        assert run("check") == (0, "nothing is wrong\n", "")
        assert run("retain", "--days", "1")[0] == 0
        for words in (["backup", "b"], ["restore", "a.jsonl"]):
            code, _, err = run(*words)
            assert code == 4
            assert "which makes copies of its own (pg_dump); use export" in err
        assert run("backup", "b", "--db", "memory.db")[0] == 0
    assert value(filled, "b") == "blue"
    assert (folder / "b").exists()
