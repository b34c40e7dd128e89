"""One stack with a sidecar for the whole run."""

from collections.abc import Iterator

import pytest

from funnel_stack import FunnelStack, funnel_stack, programs


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FunnelStack]:
    hasty = {"WATCHDOG_INTERVAL": "1", "WATCHDOG_FAILURES": "2"}
    with funnel_stack(tmp_path_factory.mktemp("funnel"), **hasty) as stack:
        yield stack


@pytest.fixture(scope="session", params=programs())
def served(request: pytest.FixtureRequest, stack: FunnelStack) -> FunnelStack:
    """The stack with each program in turn as its sidecar."""
    stack.run_sidecar(request.param)
    stack.wait_until_it_answers()
    return stack
