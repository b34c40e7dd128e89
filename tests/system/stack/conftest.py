"""One stack of each profile for the whole run."""

from collections.abc import Iterator

import pytest

from compose_stack import Stack, running


@pytest.fixture(scope="session")
def lean(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running(tmp_path_factory.mktemp("lean")) as stack:
        yield stack


@pytest.fixture(scope="session")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running(tmp_path_factory.mktemp("extended"), "extended") as stack:
        yield stack
