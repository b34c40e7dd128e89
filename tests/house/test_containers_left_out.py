"""Without a Docker engine the tests of containers are left out, and loudly."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = "tests/system/stack/test_stack_story.py"


@pytest.fixture
def without_an_engine(tmp_path):
    """Runs the tests of containers with options and settings, where no program is found."""
    kept = {name: value for name, value in os.environ.items() if name != "REQUIRE_DOCKER"}

    def running(*options, **settings):
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, TESTS],
            cwd=ROOT,
            env=kept | {"PATH": str(tmp_path)} | settings,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    return running


def test_they_are_skipped_with_one_line_that_counts_them(without_an_engine):
    done = without_an_engine("--containers")
    assert done.returncode == 0
    assert re.search("NOT TESTED: no Docker engine answers, so [1-9].* were skipped", done.stdout)


def test_a_missing_engine_is_a_failure_where_one_is_required(without_an_engine):
    done = without_an_engine("--containers", REQUIRE_DOCKER="1")
    assert done.returncode == 1
    assert "REQUIRE_DOCKER=1, and no Docker engine answers" in done.stdout + done.stderr


def test_without_being_asked_for_they_do_not_run(without_an_engine):
    done = without_an_engine(REQUIRE_DOCKER="1")
    assert re.search("^[1-9][0-9]* deselected", done.stdout, re.MULTILINE)
