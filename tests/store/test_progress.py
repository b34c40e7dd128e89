"""How far something is shows at a terminal, once it takes its time, and nowhere else."""

import io

from memory_store.operations import progress as module
from memory_store.operations.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def passing(monkeypatch, *moments):
    monkeypatch.setattr(module.time, "monotonic", iter(moments).__next__)


def test_a_terminal_is_told_from_the_first_second_on_and_left_clean(monkeypatch):
    passing(monkeypatch, 0.0, 0.9, 1.1, 1.1, 1.15, 1.3, 1.3)
    terminal = Terminal()
    progress = Progress(terminal)
    for done in (10, 50, 51, 60):
        progress("copied", done, 100)
    progress.clear()

    assert terminal.getvalue() == "\rcopied:  50%\rcopied:  60%\r            \r"


def test_a_total_that_is_unknown_is_counted(monkeypatch):
    passing(monkeypatch, 0.0, 2.0, 2.0)
    terminal = Terminal()
    Progress(terminal)("read", 1234, 0)

    assert terminal.getvalue() == "\rread: 1,234"


def test_what_ends_at_once_says_nothing():
    terminal = Terminal()
    progress = Progress(terminal)
    progress("copied", 1, 1)
    progress.clear()

    assert terminal.getvalue() == ""


def test_a_file_is_told_nothing(monkeypatch):
    passing(monkeypatch, 0.0)
    file = io.StringIO()
    Progress(file)("copied", 1, 100)

    assert file.getvalue() == ""
