"""`infra/vm/backup.sh` on a host without containers: taken, kept, added to a bucket, put back."""

import gzip
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from bucket_server import bucket_serving
from memory_store.opening import open_store
from memory_store.settings import StoreSettings
from store.holders import Hand
from store.office import ADMIN

VM = Path(__file__).parents[2] / "infra" / "vm"
SCRIPT = VM / "backup.sh"
COMMAND = Path(sys.executable).parent / "memory-bridge"
SECONDS = 120

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the script is for Linux hosts")


@pytest.fixture
def bucket():
    with bucket_serving() as bucket:
        yield bucket


class Host:
    """A host with a memory in `data`, whose backups are in `folder`."""

    def __init__(self, home):
        self.data, self.folder = home / "data", home / "back ups"
        self.data.mkdir()
        self.database = self.data / "memory.db"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MCP_")}
        self.environment = kept | {
            "BACKUP_SETTINGS": str(home / "etc" / "backup.conf"),
            "BACKUP_FOLDER": str(self.folder),
            "BACKUP_TRIES": "1",
            "MEMORY_BRIDGE": str(COMMAND),
            "MCP_MEMORY_STORE_DIR": str(self.data),
        }

    def run(self, *words, given=None, **settings):
        return subprocess.run(
            [SCRIPT, *words],
            env=self.environment | settings,
            stdin=given or subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    def done(self, *words, **settings):
        done = self.run(*words, **settings)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def backups(self):
        return sorted(self.folder.glob("memory-*"))

    def store(self):
        return closing(open_store(StoreSettings(memory_db=self.database)))

    def write(self, value):
        with self.store() as store:
            Hand(store, ADMIN).set("k", value)

    def read(self):
        with self.store() as store:
            return Hand(store, ADMIN).get("k").value


@pytest.fixture
def host(tmp_path):
    host = Host(tmp_path)
    host.write("before")
    return host


def test_a_backup_is_whole_alone_with_its_owner_and_leaves_nothing_beside_it(host):
    host.done()
    (backup,) = host.backups()
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    copy = host.folder / "copy.db"
    copy.write_bytes(gzip.decompress(backup.read_bytes()))
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("SELECT count(*) FROM fact").fetchone() == (1,)
    assert [path.name for path in host.data.iterdir() if path.name.startswith(".")] == []
    assert str(backup) in host.done("list")


def test_a_backup_is_taken_while_the_memory_is_in_use_and_put_back_by_one_command(host):
    with host.store() as store:
        Hand(store, ADMIN).set("k", "while it was open")
        host.done()
    host.write("after")
    assert "is back" in host.done("restore", "latest")
    assert host.read() == "while it was open"
    assert list(host.data.glob("memory.db.replaced-*"))


def test_under_an_open_store_nothing_is_put_back(host):
    host.done()
    with host.store():
        refused = host.run("restore", "latest")
    assert refused.returncode != 0
    assert "in use" in refused.stderr or "open" in refused.stderr
    assert host.read() == "before"


def test_a_backup_may_come_on_stdin_packed_or_as_it_is(host, tmp_path):
    host.done()
    (backup,) = host.backups()
    plain = tmp_path / "plain.db"
    plain.write_bytes(gzip.decompress(backup.read_bytes()))
    for source in (backup, plain):
        host.write("after")
        with source.open("rb") as given:
            done = host.run("restore", "-", given=given)
        assert done.returncode == 0, done.stderr
        assert host.read() == "before"
    assert not (host.folder / ".incoming").exists()


def test_what_is_no_backup_changes_nothing(host, tmp_path):
    host.done()
    whole = host.backups()[0].read_bytes()
    packed_letter = gzip.compress(b"a letter")
    for content in (whole[:-20], b"PGDMP" + whole, b"a letter", packed_letter, b"", None):
        file = tmp_path / "file"
        file.unlink(missing_ok=True)
        if content is not None:
            file.write_bytes(content)
        refused = host.run("restore", str(file))
        assert refused.returncode == 1
        assert refused.stderr.startswith("backup.sh: ")
    assert host.read() == "before"


def test_old_backups_go_and_nothing_else_does_and_only_after_a_new_one(host):
    host.done()
    (old,) = host.backups()
    old = old.rename(host.folder / "memory-20200101T000000Z.db.gz")
    note = host.folder / "note"
    note.touch()
    for path in (old, note):
        long_ago = time.time() - 8 * 86_400
        os.utime(path, (long_ago, long_ago))
    assert host.run(MEMORY_BRIDGE="/bin/false").returncode != 0
    assert old.exists()
    host.done(BACKUP_DAYS="9")
    assert old.exists()
    assert "too old" in host.done()
    assert not old.exists()
    assert note.exists()


def test_the_bucket_gets_the_same_bytes_under_the_same_name(host, bucket):
    told = host.done(**bucket.settings)
    (backup,) = host.backups()
    assert bucket.objects == {backup.name: backup.read_bytes()}
    assert f"gs://{bucket.name}/{backup.name}" in told
    assert bucket.token not in told


def test_a_bucket_that_is_away_for_a_moment_is_tried_again(host, bucket):
    bucket.refusals = [503]
    host.done(**bucket.settings)
    assert len(bucket.objects) == 1


@pytest.mark.parametrize("fault", ["another bucket", "refused", "no identity"])
def test_a_bucket_that_does_not_take_it_is_a_failure_and_the_folder_has_it(host, bucket, fault):
    if fault == "refused":
        bucket.refusals = [403]
    bucket.has_identity = fault != "no identity"
    other = {"BACKUP_BUCKET": "nobodys"} if fault == "another bucket" else {}
    failed = host.run(**(bucket.settings | other))
    assert failed.returncode == 1
    assert "could not be added to the bucket" in failed.stderr
    assert len(host.backups()) == 1
    assert bucket.objects == {}


def test_two_at_a_time_are_refused(host):
    host.folder.mkdir()
    with subprocess.Popen(
        ["flock", host.folder / ".lock", "sh", "-c", "echo locked; read line"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout.readline() == b"locked\n"
        refused = host.run()
        other.stdin.close()
    assert refused.returncode == 1
    assert "under way" in refused.stderr


def test_a_memory_that_is_not_there_is_said_so(host, tmp_path):
    assert "no folder" in host.run(MCP_MEMORY_STORE_DIR=str(tmp_path / "none")).stderr
    assert "BACKUP_DAYS" in host.run(BACKUP_DAYS="0").stderr


@pytest.fixture
def systemctl(tmp_path):
    """Writes down what it is told."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "systemctl"
    program.write_text(f'#!/bin/sh\necho "$*" >>{tmp_path}/told\n')
    program.chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def test_installed_it_is_taken_each_night_with_the_settings_of_then(host, systemctl, tmp_path):
    units = tmp_path / "units"
    units.mkdir()
    host.done("install", BACKUP_DAYS="3", SYSTEMD_FOLDER=str(units), **systemctl)
    told = (tmp_path / "told").read_text().splitlines()
    assert told == ["daemon-reload", "enable --now memory-bridge-backup.timer"]
    service = (units / "memory-bridge-backup.service").read_text()
    assert f"ExecStart={SCRIPT}\n" in service
    settings = host.environment["BACKUP_SETTINGS"]
    assert f"BACKUP_SETTINGS={settings}\n" in service
    alone = {name: host.environment[name] for name in ("PATH", "BACKUP_SETTINGS")}
    host.environment = alone
    host.done()
    assert len(host.backups()) == 1
    assert "BACKUP_DAYS=3" in Path(settings).read_text()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here")
def test_the_units_are_right(host, systemctl, tmp_path):
    units = tmp_path / "units"
    units.mkdir()
    host.done("install", SYSTEMD_FOLDER=str(units), **systemctl)
    checked = subprocess.run(
        ["systemd-analyze", "verify", *map(str, units.iterdir())],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert "memory-bridge-backup" not in checked.stderr
    assert checked.returncode == 0, checked.stderr


def test_a_restore_stops_the_service_and_starts_it_again_even_if_it_fails(
    host, systemctl, tmp_path
):
    host.done()
    systemctl["MEMORY_BRIDGE_UNIT"] = "memory.service"
    host.done("restore", "latest", **systemctl)
    assert host.run("restore", "latest", MEMORY_BRIDGE="/bin/false", **systemctl).returncode != 0
    told = tmp_path / "told"
    assert told.read_text().splitlines() == ["stop memory.service", "start memory.service"] * 2
    told.unlink()
    host.done("restore", "latest", "--stay-down", **systemctl)
    assert told.read_text() == "stop memory.service\n"
    assert host.run("restore", "latest", "--stay-up").returncode == 1
