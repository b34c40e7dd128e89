"""What the command prints at a terminal."""

import io
import os

import pytest

from memory_bridge.output import Screen


class Terminal(io.TextIOWrapper):
    def __init__(self, encoding="utf-8"):
        super().__init__(io.BytesIO(), encoding=encoding, newline="\n")

    def isatty(self):
        return True

    @property
    def shown(self):
        self.flush()
        return self.buffer.getvalue()


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((30, 24)))
    return Terminal()


def test_a_value_cannot_drive_the_terminal_and_ends_its_line(terminal):
    Screen(terminal, terminal).value("a\tb\n\x1b[2J\x9b\u202e")
    assert terminal.shown == b"a\tb\n\\x1b[2J\\x9b\\u202e\n"


def test_neither_can_a_sentence(terminal):
    Screen(terminal, terminal).note("died:\n\x1b]0;title\x07")
    assert terminal.shown == b"died:\n\\x1b]0;title\\x07\n"


def test_a_function_at_the_end_of_a_row_is_given_the_room_up_to_the_edge(terminal, monkeypatch):
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((80, 24)))
    Screen(terminal, terminal).table([("日本", "a", str), ("kk", "long" * 5, str), ("k", "b", "x")])
    first, second, third = terminal.shown.decode().splitlines()
    assert first == "日本  a                     52"
    assert second == "kk    longlonglonglonglong  52"
    assert third == "k     b                     x"


def test_a_narrow_terminal_and_a_pipe_leave_room_too(terminal):
    Screen(terminal, terminal).table([("k" * 29, str)])
    assert terminal.shown.decode() == "k" * 29 + "  24\n"
    pipe = io.StringIO()
    Screen(pipe, pipe).table([("k" * 200, str)])
    assert pipe.getvalue() == "k" * 200 + "  80\n"


def test_what_a_terminal_cannot_encode_is_escaped():
    terminal = Terminal("ascii")
    Screen(terminal, terminal).line("é😀\ud800")
    assert terminal.shown == rb"\xe9\U0001f600\ud800" + b"\n"
