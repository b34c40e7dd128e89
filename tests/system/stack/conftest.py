"""One stack of each profile for the whole run."""

from collections.abc import Iterator

import pytest

from compose_stack import Stack, running

HEALTH_INTERVAL = "2s"
"""Often, since the first check of a container that starts comes after a whole interval."""


@pytest.fixture(scope="session")
def lean(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running(tmp_path_factory.mktemp("lean"), HEALTH_INTERVAL=HEALTH_INTERVAL) as stack:
        yield stack


@pytest.fixture(scope="session")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """With two gateways and two workers, which say what they embed."""
    settings = {"HEALTH_INTERVAL": HEALTH_INTERVAL, "GATEWAYS": "2", "EMBEDDERS": "2"}
    folder = tmp_path_factory.mktemp("extended")
    with running(folder, "extended", MCP_LOG_LEVEL="debug", **settings) as stack:
        yield stack
