"""One stack with a sidecar for the whole run."""

from collections.abc import Iterator

import pytest

from funnel_stack import FunnelStack, funnel_stack, programs


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FunnelStack]:
    with funnel_stack(tmp_path_factory.mktemp("funnel")) as stack:
        yield stack


@pytest.fixture(scope="session", params=programs())
def served(request: pytest.FixtureRequest, stack: FunnelStack) -> FunnelStack:
    """The stack with each program in turn as its sidecar."""
    stack.run_sidecar(request.param)
    return stack
