"""Shells complete commands and options: the real ones, where they are installed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from clients.terminal import Terminal
from memory_bridge import cli, parsing, shells

BIN = Path(sys.executable).parent
INSTALLED = [shell for shell in ("bash", "zsh", "fish") if shutil.which(shell)]
# What each needs before a line is typed, with a prompt that says when it has it.
RC = {
    "bash": 'PS1="> "; eval "$(memory-bridge completion bash)"; echo "re""ady"\n',
    "zsh": 'PS1="> "; autoload -U compinit; compinit -D; '
    'eval "$(memory-bridge completion zsh)"; echo "re""ady"\n',
}
START = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
}


@pytest.fixture
def environment(tmp_path):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MCP_")}
    path = f"{BIN}{os.pathsep}{kept['PATH']}"
    return kept | {"PATH": path, "HOME": str(tmp_path), "TERM": "xterm", "LC_ALL": "C.UTF-8"}


def candidates(capsys, *words, shell="bash"):
    marked = [f"{shells.MARK}{word}" for word in words]
    assert cli.main(["completion", shell, "--", *marked]) == 0
    return capsys.readouterr().out.splitlines()


def test_every_command_is_completed(capsys):
    every = {command.name for command in (*parsing.COMMANDS, *parsing.PROGRAMS)}
    assert every | {"serve", "backup", "migrate-to"} <= set(candidates(capsys, ""))


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["ins"], ["inspect"]),
        (["--json", "--url", "tail", "unde"], []),
        (["--json", "--url", "tail", "und"], ["undo"]),
        (["token", "r"], ["revoke", "rotate"]),
        (["token", "create", "--sc"], ["--scope"]),
        (["token", "create", "--scope", ""], ["read", "write", "admin"]),
        (["daemon", "st"], ["start", "stop", "status"]),
        (["backup", "x"], [":files"]),
        (["get", "k", "--db", ""], [":files"]),
        (["serve", "--"], ["--help", "--http"]),
        (["get", "some"], []),
        (["get", "--", "--d"], []),
        (["no-such-command", ""], []),
        (["completion", ""], ["bash", "zsh", "fish", "powershell"]),
    ],
)
def test_what_may_stand_next_is_what_the_parser_takes(capsys, words, found):
    assert candidates(capsys, *words) == found


def test_the_help_goes_with_the_word_where_a_shell_shows_it(capsys):
    assert candidates(capsys, "lock", shell="fish") == candidates(
        capsys, "lock", shell="powershell"
    )
    word, meaning = candidates(capsys, "lock", shell="fish")[0].split("\t")
    assert word == "lock-demo"
    assert meaning.startswith("what a write does")
    assert candidates(capsys, "lock", shell="zsh") == [f"{word}:{meaning}"]


@pytest.mark.parametrize("shell", [shell for shell in INSTALLED if shell in START])
def test_a_shell_completes_a_command_its_options_and_files(shell, environment, tmp_path):
    (tmp_path / "a file.jsonl").touch()
    with Terminal(START[shell], environment, tmp_path) as terminal:
        terminal.type(RC[shell])
        terminal.wait_for("ready")
        terminal.type("memory-bridge str\t--wri\t")
        terminal.wait_for("memory-bridge stress --writes")
        terminal.type("\x15memory-bridge import a\t")
        terminal.wait_for(r"a\ file.jsonl")


@pytest.mark.skipif("fish" not in INSTALLED, reason="fish is not installed")
def test_fish_completes_a_command_its_options_and_files(environment, tmp_path):
    (tmp_path / "a file.jsonl").touch()

    def completed(line):
        script = f"memory-bridge completion fish | source; complete -C'{line}'"
        done = subprocess.run(
            ["fish", "--no-config", "-c", script],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return [each.split("\t")[0] for each in done.stdout.splitlines() if each]

    assert completed("memory-bridge str") == ["stress"]
    assert completed("memory-bridge stress --wri") == ["--writes"]
    assert completed("memory-bridge token ") == ["create", "list", "revoke", "rotate"]
    assert completed("memory-bridge import a") == ["a file.jsonl"]
