"""Functions fit on a screen and files in a head."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = sorted(
    path for folder in ("clients", "services", "tests") for path in (ROOT / folder).rglob("*.py")
)
MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 50


def long_functions(source, limit=MAX_FUNCTION_LINES):
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = node.end_lineno - node.body[0].lineno + 1
            if lines > limit:
                yield f"{node.name} has a body of {lines} lines"


def test_no_file_is_too_long():
    long = [str(path) for path in FILES if path.read_text().count("\n") > MAX_FILE_LINES]
    assert long == []


def test_no_function_is_too_long():
    long = [f"{path}: {found}" for path in FILES for found in long_functions(path.read_text())]
    assert long == []


def test_a_long_function_is_found():
    assert list(long_functions("def f():\n" + "    x = 1\n" * 50)) == []
    assert list(long_functions("def f():\n" + "    x = 1\n" * 51)) == ["f has a body of 51 lines"]
